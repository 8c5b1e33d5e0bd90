"""Random-weight two-layer models, written as GGUF files and Hugging Face folders, each with a small real tokenizer."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import gguf
import numpy as np
import numpy.typing as npt
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

Weights = dict[str, npt.NDArray[np.float32]]
HuggingFaceDtype = Literal["float32", "float16", "bfloat16"]

VOCAB_SIZE = 384
SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WORD_PATTERNS = {
    "llama": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
WORD_PATTERNS["qwen3"] = WORD_PATTERNS["qwen2"]
_PRE_NAMES = {"llama": "llama-bpe", "qwen2": "qwen2", "qwen3": "qwen2"}
_CORPUS = ["the quick brown fox jumps over the lazy dog", "pack my box with five dozen liquor jugs, 1234 times"] * 3


@dataclass(frozen=True)
class TinyModel:
    """A config.json's content and the weights by Hugging Face's names."""

    config: dict[str, Any]
    weights: Weights
    tokenizer: Tokenizer = field(repr=False)

    @property
    def architecture(self) -> str:
        return self.config["model_type"]


def tiny_model(architecture: str, *, tied: bool = True, seed: int = 7, **overrides: object) -> TinyModel:
    """A model of `architecture` whose attention and positions matter: scores spread over several units."""
    config: dict[str, Any] = {
        "model_type": architecture,
        "architectures": [{"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3"}[architecture] + "ForCausalLM"],
        "vocab_size": VOCAB_SIZE,
        "hidden_size": 128,
        # No multiple of 64: the down projection cannot be stored in int4 groups.
        "intermediate_size": 224,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 1 if architecture == "qwen2" else 2,
        "head_dim": 64 if architecture == "qwen3" else 32,
        "max_position_embeddings": 512,
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": tied,
        "eos_token_id": 2,
        **overrides,
    }
    return TinyModel(config, _random_weights(config, np.random.default_rng(seed)), _tiny_tokenizer(architecture))


def write_huggingface(
    model: TinyModel, folder: Path, dtype: HuggingFaceDtype = "float32", *, shards: int = 1
) -> Weights:
    """Write the folder and return the weights that a reader should find: rounded to `dtype`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(model.config))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 0]}))
    tokens = {"bos_token": {"content": "<|im_start|>"}, "eos_token": "<|im_end|>", "chat_template": CHAT_TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokens))
    model.tokenizer.save(str(folder / "tokenizer.json"))
    stored = {name: _stored(value, dtype) for name, value in model.weights.items()}
    names = sorted(stored)
    if shards == 1:
        _save(folder / "model.safetensors", {name: stored[name][0] for name in names}, model.weights, dtype)
    else:
        placed = {name: f"model-{i % shards + 1:05}-of-{shards:05}.safetensors" for i, name in enumerate(names)}
        for file in set(placed.values()):
            part = {name: stored[name][0] for name in names if placed[name] == file}
            _save(folder / file, part, model.weights, dtype)
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": placed}))
    return {name: rounded for name, (_, rounded) in stored.items()}


def write_gguf(
    model: TinyModel, path: Path, kind: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32
) -> Weights:
    """Write the file and return the weights that a reader should find: matrices rounded to `kind`."""
    config, architecture = model.config, model.architecture
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name(f"Tiny {architecture} (random)")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    _add_rope_scaling(writer, config)
    _add_tokenizer(writer, model)
    expected: Weights = {}
    for name, value in model.weights.items():
        expected[name] = _add_weight(writer, model, name, value, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return expected


def _random_weights(config: dict[str, Any], rng: np.random.Generator) -> Weights:
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    query = config["num_attention_heads"] * config["head_dim"]
    key = config["num_key_value_heads"] * config["head_dim"]

    def matrix(rows: int, columns: int) -> npt.NDArray[np.float32]:
        return (rng.standard_normal((rows, columns)) * 1.5 / np.sqrt(columns)).astype(np.float32)

    def gain(size: int) -> npt.NDArray[np.float32]:
        return (1 + 0.2 * rng.standard_normal(size)).astype(np.float32)

    weights = {"model.embed_tokens.weight": matrix(VOCAB_SIZE, hidden), "model.norm.weight": gain(hidden)}
    if not config["tie_word_embeddings"]:
        weights["lm_head.weight"] = matrix(VOCAB_SIZE, hidden)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        weights[prefix + "input_layernorm.weight"] = gain(hidden)
        weights[prefix + "post_attention_layernorm.weight"] = gain(hidden)
        for name, rows in (("q", query), ("k", key), ("v", key)):
            weights[f"{prefix}self_attn.{name}_proj.weight"] = matrix(rows, hidden)
            if config["model_type"] == "qwen2":
                weights[f"{prefix}self_attn.{name}_proj.bias"] = 0.5 * rng.standard_normal(rows).astype(np.float32)
        weights[prefix + "self_attn.o_proj.weight"] = matrix(hidden, query)
        if config["model_type"] == "qwen3":
            weights[prefix + "self_attn.q_norm.weight"] = gain(config["head_dim"])
            weights[prefix + "self_attn.k_norm.weight"] = gain(config["head_dim"])
        weights[prefix + "mlp.gate_proj.weight"] = matrix(inner, hidden)
        weights[prefix + "mlp.up_proj.weight"] = matrix(inner, hidden)
        weights[prefix + "mlp.down_proj.weight"] = matrix(hidden, inner)
    return weights


def _tiny_tokenizer(architecture: str) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(ignore_merges=architecture == "llama"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(WORD_PATTERNS[architecture]), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    if architecture != "llama":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=340,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[AddedToken(text, special=True, normalized=False) for text in SPECIAL_TOKENS],
        show_progress=False,
    )
    tokenizer.train_from_iterator(_CORPUS, trainer)
    return tokenizer


def _stored(value: npt.NDArray[np.float32], dtype: HuggingFaceDtype) -> tuple[bytes, npt.NDArray[np.float32]]:
    """The bytes on disk and the float32 values that they stand for."""
    if dtype == "bfloat16":
        upper = (np.ascontiguousarray(value).view(np.uint32) >> 16).astype(np.uint16)
        return upper.tobytes(), (upper.astype(np.uint32) << 16).view(np.float32)
    rounded = value.astype(dtype)
    return rounded.tobytes(), rounded.astype(np.float32)


def _save(path: Path, stored: dict[str, bytes], weights: Weights, dtype: HuggingFaceDtype) -> None:
    code = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}[dtype]
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, data in stored.items():
        header[name] = {"dtype": code, "shape": weights[name].shape, "data_offsets": [end, end + len(data)]}
        end += len(data)
    described = json.dumps(header).encode()
    path.write_bytes(len(described).to_bytes(8, "little") + described + b"".join(stored.values()))


def _add_rope_scaling(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    scaling = config.get("rope_scaling")
    if scaling is None:
        return
    if scaling["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(scaling["factor"])
        return
    # As the converter does for llama3: a divisor for each rotary pair, in a tensor.
    size, window = config["head_dim"], scaling["original_max_position_embeddings"]
    low, high = window / scaling["low_freq_factor"], window / scaling["high_freq_factor"]
    divisors = []
    for pair in range(size // 2):
        wavelength = 2 * np.pi * config["rope_theta"] ** (2 * pair / size)
        smooth = (window / wavelength - scaling["low_freq_factor"]) / (
            scaling["high_freq_factor"] - scaling["low_freq_factor"]
        )
        blended = 1 / ((1 - smooth) / scaling["factor"] + smooth)
        divisors.append(1.0 if wavelength < high else scaling["factor"] if wavelength > low else blended)
    writer.add_tensor("rope_freqs.weight", np.array(divisors, dtype=np.float32))


def _add_tokenizer(writer: gguf.GGUFWriter, model: TinyModel) -> None:
    described = json.loads(model.tokenizer.to_str())["model"]
    pieces = [piece for piece, _ in sorted(described["vocab"].items(), key=lambda item: item[1])]
    padding = [f"[PAD{index}]" for index in range(len(pieces), VOCAB_SIZE)]
    control, unused = gguf.TokenType.CONTROL, gguf.TokenType.UNUSED
    types = [control if piece in SPECIAL_TOKENS else gguf.TokenType.NORMAL for piece in pieces]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(_PRE_NAMES[model.architecture])
    writer.add_token_list([*pieces, *padding])
    writer.add_token_types([*types, *[unused] * len(padding)])
    writer.add_token_merges([" ".join(pair) for pair in described["merges"]])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(CHAT_TEMPLATE)


def _add_weight(
    writer: gguf.GGUFWriter,
    model: TinyModel,
    name: str,
    value: npt.NDArray[np.float32],
    kind: gguf.GGMLQuantizationType,
) -> npt.NDArray[np.float32]:
    stored_name = _gguf_name(name)
    heads = {
        "q_proj": model.config["num_attention_heads"],
        "k_proj": model.config["num_key_value_heads"],
    }.get(name.split(".")[-2])
    if heads is None or model.architecture != "llama":
        heads = 0
    rows = _interleave(value, heads) if heads else value
    if value.ndim == 1 or kind is gguf.GGMLQuantizationType.F32:
        writer.add_tensor(stored_name, np.ascontiguousarray(rows))
        return value
    packed = gguf.quants.quantize(rows, kind)
    writer.add_tensor(stored_name, packed, raw_dtype=kind)
    rounded = gguf.quants.dequantize(packed, kind)
    return _deinterleave(rounded, heads) if heads else rounded


def _interleave(value: npt.NDArray[np.float32], heads: int) -> npt.NDArray[np.float32]:
    """What the converter does to llama's queries and keys: element i of the second half follows that of the first."""
    half = value.shape[0] // heads // 2
    order = [head * 2 * half + part * half + i for head in range(heads) for i in range(half) for part in (0, 1)]
    return value[order]


def _deinterleave(value: npt.NDArray[np.float32], heads: int) -> npt.NDArray[np.float32]:
    undone = np.empty_like(value)
    undone[_interleave(np.arange(value.shape[0], dtype=np.float32), heads).astype(int)] = value
    return undone


def _gguf_name(name: str) -> str:
    simple = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }
    if name in simple:
        return simple[name]
    _, _, layer, *middle, part = name.split(".")
    renamed = {
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        "q_proj": "attn_q",
        "k_proj": "attn_k",
        "v_proj": "attn_v",
        "o_proj": "attn_output",
        "q_norm": "attn_q_norm",
        "k_norm": "attn_k_norm",
        "gate_proj": "ffn_gate",
        "up_proj": "ffn_up",
        "down_proj": "ffn_down",
    }
    return f"blk.{layer}.{renamed[middle[-1]]}.{part}"
