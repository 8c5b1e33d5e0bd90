"""Settings of one engine."""

from typing import Annotated, Literal

import msgspec

WeightPrecision = Literal["auto", "f32", "f16", "int8", "int4"]
Speculation = Literal["off", "ngram"]
KvPrecision = Literal["auto", "f32", "f16", "bf16", "u8"]


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one engine runs its model. Sizes in GiB where the name says `gb`, else in tokens or sequences."""

    weight_precision: WeightPrecision = "auto"
    """Precision of the projections' weights; `auto` is int8. An OpenVINO IR folder keeps its own."""
    kv_precision: KvPrecision = "auto"
    """Precision of the KV cache; `auto` follows the precision in which this CPU computes (bf16 or f32)."""
    kv_cache_gb: Annotated[float, msgspec.Meta(gt=0, le=4096)] = 1.0
    """Memory for the KV cache, taken at start."""
    swap_space_gb: Annotated[float, msgspec.Meta(ge=0, le=4096)] = 1.0
    """Host memory for the blocks of preempted sequences; what does not fit is recomputed."""
    max_num_seqs: Annotated[int, msgspec.Meta(ge=1, le=4096)] = 16
    """Sequences that run at the same time."""
    max_model_len: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Prompt plus output tokens of one sequence; the model's own window where none is given, or a larger one."""
    max_num_batched_tokens: Annotated[int, msgspec.Meta(ge=1)] = 512
    """Tokens of one step."""
    max_prefill_tokens_per_step: Annotated[int, msgspec.Meta(ge=1)] = 256
    """Prompt tokens of one step."""
    batch_prefill_tokens_per_step: Annotated[int, msgspec.Meta(ge=1)] = 16
    """Batch-class prompt tokens of one step while interactive traffic is recent."""
    interactive_recency_s: Annotated[float, msgspec.Meta(ge=0)] = 5.0
    """How long after an interactive arrival the traffic counts as recent."""
    max_preemptions_by_own_class: Annotated[int, msgspec.Meta(ge=0)] = 3
    """A sequence preempted this often is not preempted again for one of its own class."""
    speculation: Speculation = "ngram"
    """`ngram` guesses tokens by what followed the same ones before, and tries guesses where larger steps are measured
    to pay; the output is the same."""
    threads: Annotated[int, msgspec.Meta(ge=0)] = 0
    """Threads that compute; 0 is one for each core."""
