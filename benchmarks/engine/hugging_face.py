"""A GGUF model written out as a Hugging Face folder, for engines that read nothing else."""

from pathlib import Path

import msgspec
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models

from benchmarks.engine.work import PeerUnavailableError
from forebay.modelfiles.model import DecoderConfig, ModelFiles
from forebay.modelfiles.tokenizer import ModelTokenizer


def write_hugging_face(model: ModelFiles, folder: Path) -> None:
    """config.json, model.safetensors (float32) and a tokenizer.json that decodes."""
    if model.config is None or model.weights is None:
        raise PeerUnavailableError(f"{model.path} has its weights inside a graph; give a GGUF file")
    config = msgspec.json.encode(_config(model.config, sorted(model.eos_token_ids)))
    (folder / "config.json").write_bytes(config)
    weights = model.weights
    save_file({name: weights.tensor(name) for name in weights.names()}, folder / "model.safetensors", {"format": "pt"})
    _decoding_tokenizer(model.tokenizer).save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')


def _decoding_tokenizer(tokenizer: ModelTokenizer) -> Tokenizer:
    """One that turns ids into text as the model's own does; prompts come as ids, so it never has to encode."""
    vocabulary = {tokenizer.token_text(number): number for number in range(tokenizer.vocab_size)}
    decoding = Tokenizer(models.WordLevel(vocabulary, unk_token=tokenizer.token_text(0)))
    decoding.decoder = decoders.ByteLevel()
    return decoding


def _config(config: DecoderConfig, eos_token_ids: list[int]) -> dict[str, object]:
    """As transformers writes it for a llama model."""
    if config.architecture != "llama":
        raise PeerUnavailableError(f"only llama models are written out, this one is {config.architecture}")
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.context_window,
        "rope_theta": config.rope_theta,
        "rms_norm_eps": config.rms_norm_eps,
        "tie_word_embeddings": config.tie_word_embeddings,
        "attention_bias": config.attention_bias,
        "eos_token_id": eos_token_ids,
        "torch_dtype": "float32",
    }
