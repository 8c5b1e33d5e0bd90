"""A model in a Hugging Face folder: config.json, tokenizer.json and safetensors, read without torch."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from forebay.core.errors import ModelFileError
from forebay.modelfiles.architectures import check_heads, rope_scaling, slug, supported_architecture
from forebay.modelfiles.fields import Fields
from forebay.modelfiles.folder import chat_template, context_window, end_tokens
from forebay.modelfiles.layout import Shape, check_tensors
from forebay.modelfiles.model import Architecture, DecoderConfig, ModelFiles
from forebay.modelfiles.safetensors_file import SafetensorsFile
from forebay.modelfiles.tokenizer import ModelTokenizer


def load_huggingface(folder: Path) -> ModelFiles:
    """Read a llama, qwen2 or qwen3 checkpoint folder.

    Raises ModelFileError, naming the file, for what is missing, damaged, quantised or of a kind that cannot be run.
    """
    fields = Fields.from_json(folder / "config.json")
    config = decoder_config(fields)
    weights = SafetensorsWeights(folder)
    check_tensors(config, weights.shapes, folder)
    tokenizer = ModelTokenizer.from_json(folder / "tokenizer.json")
    return ModelFiles(
        name=slug(folder.resolve().name),
        path=folder,
        context_window=config.context_window,
        tokenizer=tokenizer,
        chat_template=chat_template(folder),
        eos_token_ids=end_tokens(folder, fields, tokenizer),
        config=config,
        weights=weights,
    )


class SafetensorsWeights:
    """The tensors of `model.safetensors`, or of the shards that `model.safetensors.index.json` names."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        files = [SafetensorsFile(path) for path in _weight_files(folder)]
        self._files = {name: file for file in files for name in file.shapes}

    @property
    def shapes(self) -> dict[str, Shape]:
        by_file = {id(file): file.shapes for file in self._files.values()}
        return {name: by_file[id(file)][name] for name, file in self._files.items()}

    def names(self) -> Iterator[str]:
        return iter(self._files)

    def tensor(self, name: str) -> npt.NDArray[np.float32]:
        file = self._files.get(name)
        if file is None:
            raise ModelFileError(f"{self._folder} has no tensor {name!r}")
        return file.read(name)


def _weight_files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        placed = Fields.from_json(index).nested("weight_map")
        if placed is None:
            raise ModelFileError(f"{index} has no 'weight_map': it is damaged; download it again")
        return [folder / str(name) for name in sorted(set(map(str, placed.as_mapping().values())))]
    files = sorted(folder.glob("model*.safetensors"))
    if files:
        return files
    if any(folder.glob("*.bin")) or any(folder.glob("*.pt*")):
        raise ModelFileError(
            f"{folder} has its weights only as pickled PyTorch files, which can run code when they are opened: "
            "give a checkpoint with model.safetensors"
        )
    raise ModelFileError(f"{folder} has no model.safetensors: download the weights too")


def decoder_config(fields: Fields) -> DecoderConfig:
    """What a config.json says; raises ModelFileError for what cannot be run."""
    architecture = supported_architecture(fields.text("model_type"), fields.where)
    _check_supported(fields)
    hidden = fields.integer("hidden_size")
    heads = fields.integer("num_attention_heads")
    kv_heads = fields.integer("num_key_value_heads", heads)
    head_dim = fields.integer("head_dim", hidden // max(heads, 1))
    check_heads(heads, kv_heads, head_dim, fields.where)
    rope = _rope(fields)
    return DecoderConfig(
        architecture=architecture,
        num_layers=fields.integer("num_hidden_layers"),
        hidden_size=hidden,
        intermediate_size=fields.integer("intermediate_size"),
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        vocab_size=fields.integer("vocab_size"),
        context_window=context_window(fields),
        rope_theta=rope.number("rope_theta", fields.number("rope_theta", 10000.0)),
        rms_norm_eps=fields.number("rms_norm_eps", 1e-6),
        tie_word_embeddings=fields.flag("tie_word_embeddings", False),
        attention_bias=_attention_bias(fields, architecture),
        qk_norm=architecture == "qwen3",
        rope_scaling=rope_scaling(rope.as_mapping(), fields.where),
    )


def _rope(fields: Fields) -> Fields:
    """Rotary parameters: newer files keep them together in `rope_parameters`, older ones in `rope_scaling`."""
    return fields.nested("rope_parameters") or fields.nested("rope_scaling") or Fields({}, fields.where)


def _attention_bias(fields: Fields, architecture: Architecture) -> bool:
    return architecture == "qwen2" or fields.flag("attention_bias", False)


def _check_supported(fields: Fields) -> None:
    where = fields.where
    quantisation = fields.nested("quantization_config")
    if quantisation is not None:
        method = quantisation.text("quant_method", "unnamed")
        raise ModelFileError(
            f"{where}: {method!r} quantised checkpoints cannot be read; give the model's unquantised checkpoint (it is "
            "compressed when it is loaded), a GGUF file or an OpenVINO IR folder"
        )
    activation = fields.text("hidden_act", "silu")
    if activation not in ("silu", "swish"):
        raise ModelFileError(f"{where}: activation {activation!r} is not supported; silu is")
    if fields.flag("mlp_bias", False):
        raise ModelFileError(f"{where}: biases in the feed-forward layers (mlp_bias) are not supported")
    if fields.number("partial_rotary_factor", 1.0) != 1.0:
        raise ModelFileError(f"{where}: partial rotation (partial_rotary_factor) is not supported")
    if _slides(fields):
        raise ModelFileError(f"{where}: sliding window attention (use_sliding_window) is not supported")
    heads = [str(name) for name in fields.sequence("architectures", [])]
    if heads and not any(name.endswith("ForCausalLM") for name in heads):
        raise ModelFileError(f"{where}: {heads[0]!r} does not generate text; a checkpoint of …ForCausalLM does")


def _slides(fields: Fields) -> bool:
    """Whether any layer really attends through a window."""
    kinds = fields.sequence("layer_types", [])
    if kinds:
        return "sliding_attention" in kinds
    if not fields.flag("use_sliding_window", False):
        return False
    layers = fields.integer("num_hidden_layers")
    return fields.raw("sliding_window") is not None and fields.integer("max_window_layers", 0) < layers
