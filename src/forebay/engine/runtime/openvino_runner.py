"""The embedded `ModelRunner`: a paged decoder on OpenVINO's CPU plugin."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import openvino as ov

from forebay.core.errors import ModelFileError
from forebay.engine.runner import HostBlocks, RunnerCapacity, SequenceSlice, StepLogits
from forebay.engine.runtime.kv_tensors import KvLayout, KvTensors
from forebay.engine.runtime.precision import native_precision
from forebay.engine.settings import KvPrecision

_KV_TYPES: dict[str, ov.Type] = {
    "f32": ov.Type.f32,
    "f16": ov.Type.f16,
    "bf16": ov.Type.bf16,
    "u8": ov.Type.u8,
}


class OpenVinoRunner:
    """Compiles a paged decoder (see `paged_graph.to_paged`) and runs its steps.

    `kv_cache_bytes` is rounded down to whole blocks. `threads` 0 is one for each core. Raises ModelFileError where the
    runtime refuses the model or the precision, or where the cache would not hold one block.
    """

    def __init__(self, model: ov.Model, *, kv_precision: KvPrecision, kv_cache_bytes: int, threads: int) -> None:
        compiled = _compile(model, kv_precision, threads)
        self._layout = KvLayout.of(compiled)
        num_blocks = kv_cache_bytes // self._layout.bytes_per_block
        if num_blocks < 1:
            raise ModelFileError(
                f"kv_cache_gb is too small: one block of this model's KV cache takes "
                f"{self._layout.bytes_per_block} bytes, but only {kv_cache_bytes} were given"
            )
        self._kv = KvTensors(self._layout, num_blocks)
        self._request = compiled.create_infer_request()
        for name, tensor in self._kv.tensors.items():
            self._request.set_tensor(name, tensor)
        self._vocab_size = compiled.output("logits").get_partial_shape()[1].get_length()

    @property
    def capacity(self) -> RunnerCapacity:
        return RunnerCapacity(
            num_blocks=next(iter(self._kv.tensors.values())).shape[0],
            block_size=self._layout.block_size,
            bytes_per_block=self._layout.bytes_per_block,
            vocab_size=self._vocab_size,
        )

    def run(self, slices: Sequence[SequenceSlice]) -> StepLogits:
        for name, values in _step_inputs(slices, self._layout.block_size).items():
            self._request.set_tensor(name, ov.Tensor(values))
        self._request.infer()
        outputs = (
            self._request.get_tensor(name).data for name in ("logits", "top_values", "top_ids", "log_normaliser")
        )
        return StepLogits(*outputs)

    def copy_out(self, blocks: Sequence[int]) -> HostBlocks:
        return self._kv.copy_out(blocks)

    def copy_in(self, saved: HostBlocks, rows: Sequence[int], blocks: Sequence[int]) -> None:
        self._kv.copy_in(saved, rows, blocks)

    def close(self) -> None:
        del self._request, self._kv


def _compile(model: ov.Model, kv_precision: KvPrecision, threads: int) -> ov.CompiledModel:
    options: dict[str, Any] = {
        "PERFORMANCE_HINT": "LATENCY",
        # Pinned, two engines would sit on the same cores while others idle.
        "ENABLE_CPU_PINNING": False,
    }
    if threads:
        options["INFERENCE_NUM_THREADS"] = threads
    core = ov.Core()
    # The plugin's own choice is u8, which makes an output depend on how its prompt was cut into steps.
    options["KV_CACHE_PRECISION"] = _KV_TYPES[native_precision(core) if kv_precision == "auto" else kv_precision]
    try:
        return core.compile_model(model, "CPU", options)
    except RuntimeError as error:
        raise ModelFileError(
            f"the runtime cannot compile the model with KV precision {kv_precision!r}: {error}. "
            "f32, f16 and u8 suit a CPU that computes in f32; bf16 and u8 one that computes in bf16"
        ) from error


def _step_inputs(slices: Sequence[SequenceSlice], block_size: int) -> dict[str, Any]:
    """The graph's inputs for one step (see `to_paged`), but for the KV tensors."""
    lengths = np.array([len(part.token_ids) for part in slices], dtype=np.int32)
    starts = np.array([part.start for part in slices], dtype=np.int32)
    ends = starts + lengths
    tables = [part.block_table[: -(-int(end) // block_size)] for part, end in zip(slices, ends, strict=True)]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    sampled = [np.arange(end - part.num_sampled, end) for part, end in zip(slices, offsets[1:], strict=True)]
    temperatures = np.repeat([part.temperature for part in slices], [part.num_sampled for part in slices])
    return {
        "input_ids": np.concatenate([np.asarray(part.token_ids, dtype=np.int64) for part in slices]),
        "position_ids": np.concatenate([np.arange(s, e, dtype=np.int64) for s, e in zip(starts, ends, strict=True)]),
        "past_lens": starts,
        "subsequence_begins": offsets,
        "block_indices": np.concatenate([np.asarray(table, dtype=np.int32) for table in tables]),
        "block_indices_begins": np.cumsum([0, *(len(table) for table in tables)]).astype(np.int32),
        "max_context_len": np.array(ends.max(), dtype=np.int32),
        "sampled_positions": np.concatenate(sampled).astype(np.int32),
        "inverse_temperature": np.where(temperatures > 0, 1 / np.where(temperatures > 0, temperatures, 1), 1).astype(
            np.float32
        ),
    }
