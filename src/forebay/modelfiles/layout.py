"""Which tensors a decoder must have, by Hugging Face's names."""

from collections.abc import Mapping
from pathlib import Path

from forebay.core.errors import ModelFileError
from forebay.modelfiles.model import DecoderConfig

Shape = tuple[int, ...]


def tensor_shapes(config: DecoderConfig) -> dict[str, Shape]:
    """Every tensor that the decoder cannot do without, with its shape."""
    shapes: dict[str, Shape] = {
        "model.embed_tokens.weight": (config.vocab_size, config.hidden_size),
        "model.norm.weight": (config.hidden_size,),
    }
    if not config.tie_word_embeddings:
        shapes["lm_head.weight"] = (config.vocab_size, config.hidden_size)
    layer = _layer_shapes(config)
    for index in range(config.num_layers):
        shapes.update({f"model.layers.{index}.{name}": shape for name, shape in layer.items()})
    return shapes


def check_tensors(config: DecoderConfig, found: Mapping[str, Shape], where: Path) -> None:
    """Raise ModelFileError for the first tensor of `where` that is missing or of another shape than `config` says."""
    for name, shape in tensor_shapes(config).items():
        actual = found.get(name)
        if actual is None:
            raise ModelFileError(
                f"{where} has no tensor {name!r}, which a {config.architecture} model of {config.num_layers} layers "
                "needs: the file is incomplete, or its configuration is of another model"
            )
        if actual != shape:
            raise ModelFileError(
                f"{where}: tensor {name!r} has shape {list(actual)}, but the model's configuration says {list(shape)}"
            )


def _layer_shapes(config: DecoderConfig) -> dict[str, Shape]:
    hidden, inner = config.hidden_size, config.intermediate_size
    query, key = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    shapes: dict[str, Shape] = {
        "input_layernorm.weight": (hidden,),
        "post_attention_layernorm.weight": (hidden,),
        "self_attn.q_proj.weight": (query, hidden),
        "self_attn.k_proj.weight": (key, hidden),
        "self_attn.v_proj.weight": (key, hidden),
        "self_attn.o_proj.weight": (hidden, query),
        "mlp.gate_proj.weight": (inner, hidden),
        "mlp.up_proj.weight": (inner, hidden),
        "mlp.down_proj.weight": (hidden, inner),
    }
    if config.attention_bias:
        shapes |= {
            "self_attn.q_proj.bias": (query,),
            "self_attn.k_proj.bias": (key,),
            "self_attn.v_proj.bias": (key,),
        }
    if config.qk_norm:
        shapes |= {"self_attn.q_norm.weight": (config.head_dim,), "self_attn.k_norm.weight": (config.head_dim,)}
    return shapes
