"""A model in one GGUF file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from forebay.core.errors import ModelFileError
from forebay.modelfiles.architectures import check_heads, rope_scaling, slug, supported_architecture
from forebay.modelfiles.chat_template import ChatTemplate
from forebay.modelfiles.fields import Fields
from forebay.modelfiles.gguf_file import GgufFile
from forebay.modelfiles.gguf_tokenizer import CONTROL, tokenizer_from_gguf
from forebay.modelfiles.layout import Shape, check_tensors
from forebay.modelfiles.model import Architecture, DecoderConfig, ModelFiles
from forebay.modelfiles.tokenizer import ModelTokenizer

_TOP_NAMES: Final = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
}
_LAYER_NAMES: Final = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_ROPE_FACTORS: Final = "rope_freqs.weight"
_ENDS_A_TURN: Final = ("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|endoftext|>")


def load_gguf(path: Path) -> ModelFiles:
    """Read a GGUF file of a llama, qwen2 or qwen3 model.

    Raises ModelFileError where the file is damaged or incomplete, or of a kind that cannot be run.
    """
    file = GgufFile(path)
    fields = Fields(file.metadata, path)
    _check_whole(fields)
    config = _config(file, fields)
    weights = GgufWeights(file, config)
    check_tensors(config, weights.shapes, path)
    tokenizer = tokenizer_from_gguf(fields)
    return ModelFiles(
        name=slug(fields.text("general.name", path.stem)),
        path=path,
        context_window=config.context_window,
        tokenizer=tokenizer,
        chat_template=_chat_template(fields, tokenizer),
        eos_token_ids=_end_tokens(fields, tokenizer),
        config=config,
        weights=weights,
    )


class GgufWeights:
    """The tensors of a GGUF file by Hugging Face's names."""

    def __init__(self, file: GgufFile, config: DecoderConfig) -> None:
        self._file = file
        self._stored = {name: stored for name, stored in _names(config.num_layers) if stored in file.tensors}
        # The converter interleaves the rotary halves of llama's queries and keys, and leaves those of qwen as they are.
        self._interleaved = config.architecture == "llama"
        self._heads = {"q_proj": config.num_heads, "k_proj": config.num_kv_heads}

    @property
    def shapes(self) -> dict[str, Shape]:
        return {name: self._file.tensors[stored].shape for name, stored in self._stored.items()}

    def names(self) -> Iterator[str]:
        return iter(self._stored)

    def tensor(self, name: str) -> npt.NDArray[np.float32]:
        stored = self._stored.get(name)
        if stored is None:
            raise ModelFileError(f"{self._file.path} has no tensor for {name!r}")
        values = self._file.read(stored)
        heads = self._heads.get(name.split(".")[-2])
        return _halves_apart(values, heads) if heads and self._interleaved else values


def _halves_apart(values: npt.NDArray[np.float32], heads: int) -> npt.NDArray[np.float32]:
    """Rows (x0, y0, x1, y1, …) of each head to (x0, x1, …, y0, y1, …)."""
    pairs = values.reshape(heads, -1, 2, *values.shape[1:])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(values.shape)


def _names(num_layers: int) -> Iterator[tuple[str, str]]:
    """Hugging Face's name and GGUF's, of every tensor that may be there."""
    for name, stored in _TOP_NAMES.items():
        yield f"{name}.weight", f"{stored}.weight"
    for layer in range(num_layers):
        for name, stored in _LAYER_NAMES.items():
            for part in ("weight", "bias"):
                yield f"model.layers.{layer}.{name}.{part}", f"blk.{layer}.{stored}.{part}"


def _check_whole(fields: Fields) -> None:
    if fields.integer("split.count", 1) > 1:
        raise ModelFileError(
            f"{fields.where} is one part of a split model: join the parts with `llama-gguf-split --merge` "
            "and give the result"
        )
    if fields.text("general.type", "model") != "model":
        raise ModelFileError(f"{fields.where} holds {fields.text('general.type')!r}, not a model")


def _config(file: GgufFile, fields: Fields) -> DecoderConfig:
    architecture = supported_architecture(fields.text("general.architecture"), file.path)
    if fields.integer(f"{architecture}.expert_count", 0) > 0:
        raise ModelFileError(
            f"{file.path}: a {architecture} model with experts (MoE) cannot be loaded; a dense one can"
        )
    hidden = fields.integer(f"{architecture}.embedding_length")
    heads = fields.integer(f"{architecture}.attention.head_count")
    kv_heads = fields.integer(f"{architecture}.attention.head_count_kv", heads)
    head_dim = fields.integer(f"{architecture}.attention.key_length", hidden // max(heads, 1))
    check_heads(heads, kv_heads, head_dim, file.path)
    _check_attention(fields, architecture, head_dim)
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None:
        raise ModelFileError(f"{file.path} has no tensor 'token_embd.weight': it is not a whole model")
    return DecoderConfig(
        architecture=architecture,
        num_layers=fields.integer(f"{architecture}.block_count"),
        hidden_size=hidden,
        intermediate_size=fields.integer(f"{architecture}.feed_forward_length"),
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        vocab_size=embedding.shape[0],
        context_window=fields.integer(f"{architecture}.context_length"),
        rope_theta=fields.number(f"{architecture}.rope.freq_base", 10000.0),
        rms_norm_eps=fields.number(f"{architecture}.attention.layer_norm_rms_epsilon"),
        tie_word_embeddings="output.weight" not in file.tensors,
        attention_bias="blk.0.attn_q.bias" in file.tensors,
        qk_norm=architecture == "qwen3",
        rope_scaling=_rope_scaling(file, fields, architecture),
    )


def _check_attention(fields: Fields, architecture: Architecture, head_dim: int) -> None:
    rotated = fields.integer(f"{architecture}.rope.dimension_count", head_dim)
    if rotated != head_dim:
        raise ModelFileError(f"{fields.where}: partial rotation ({rotated} of {head_dim} elements) is not supported")
    values = fields.integer(f"{architecture}.attention.value_length", head_dim)
    if values != head_dim:
        raise ModelFileError(f"{fields.where}: values of {values} beside keys of {head_dim} elements are not supported")
    window = fields.integer(f"{architecture}.attention.sliding_window", 0)
    if 0 < window < fields.integer(f"{architecture}.context_length"):
        raise ModelFileError(f"{fields.where}: sliding window attention ({window} tokens) is not supported")


def _rope_scaling(file: GgufFile, fields: Fields, architecture: Architecture) -> dict[str, object] | None:
    if _ROPE_FACTORS in file.tensors:
        # What the converter makes of `llama3` scaling: one divisor for each rotary pair.
        return {"rope_type": "factors", "factors": tuple(file.read(_ROPE_FACTORS).tolist())}
    kind = fields.text(f"{architecture}.rope.scaling.type", "none")
    if kind == "none":
        return None
    scaling = {"rope_type": kind, "factor": fields.number(f"{architecture}.rope.scaling.factor", 1.0)}
    return dict(rope_scaling(scaling, file.path) or {}) or None


def _chat_template(fields: Fields, tokenizer: ModelTokenizer) -> ChatTemplate | None:
    source = fields.text("tokenizer.chat_template", "")
    if not source:
        return None
    bos, eos = (
        tokenizer.token_text(token) if (token := fields.integer(f"tokenizer.ggml.{which}_token_id", -1)) >= 0 else ""
        for which in ("bos", "eos")
    )
    return ChatTemplate(source, bos_token=bos, eos_token=eos)


def _end_tokens(fields: Fields, tokenizer: ModelTokenizer) -> frozenset[int]:
    """The declared end tokens, and the control tokens by which chat models of these families end a turn."""
    declared = {fields.integer(f"tokenizer.ggml.{which}_token_id", -1) for which in ("eos", "eot", "eom")} - {-1}
    kinds = fields.sequence("tokenizer.ggml.token_type", [])
    by_name = {token for text in _ENDS_A_TURN if (token := tokenizer.token_id(text)) is not None}
    return frozenset(declared | {token for token in by_name if token < len(kinds) and kinds[token] == CONTROL})
