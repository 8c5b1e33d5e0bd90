"""A model as it lies on disk, whatever its format."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from forebay.modelfiles.chat_template import ChatTemplate
from forebay.modelfiles.tokenizer import ModelTokenizer

Architecture = Literal["llama", "qwen2", "qwen3"]


@dataclass(frozen=True, slots=True)
class DecoderConfig:
    """The shape of a decoder. Sizes are element counts; `rope_theta` is the rotary base."""

    architecture: Architecture
    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    context_window: int
    rope_theta: float
    rms_norm_eps: float
    tie_word_embeddings: bool
    attention_bias: bool
    """Biases on the q, k and v projections (qwen2)."""
    qk_norm: bool
    """RMS norm over each head of q and k before the rotation (qwen3)."""
    rope_scaling: Mapping[str, object] | None = None
    """Hugging Face's `rope_scaling`, where the model has one (kinds: linear, llama3); a GGUF's divisors of each rotary
    pair come as kind `factors`, with the list `factors`."""


class WeightSource(Protocol):
    """Tensors by Hugging Face's names (`model.layers.0.self_attn.q_proj.weight`, …), rotary halves in its order."""

    def names(self) -> Iterator[str]: ...

    def tensor(self, name: str) -> npt.NDArray[np.float32]:
        """The tensor, dequantised, in the shape Hugging Face gives it ([out, in] for a projection)."""
        ...


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Everything that serving a model needs of its files.

    `graph` is the OpenVINO IR's xml where the model came as IR; else `config` and `weights` describe it.
    """

    name: str
    path: Path
    context_window: int
    tokenizer: ModelTokenizer
    chat_template: ChatTemplate | None
    eos_token_ids: frozenset[int]
    config: DecoderConfig | None = None
    weights: WeightSource | None = None
    graph: Path | None = None
