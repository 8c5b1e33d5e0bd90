"""A small llama with random weights that answers in letters: a whole Hugging Face folder, written in milliseconds."""

import json
import string
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

LAYERS = 2
HIDDEN = 64
HEADS = 2
KV_HEADS = 1
HEAD_DIM = HIDDEN // HEADS
CONTEXT_WINDOW = 8192
SPECIAL_TOKENS = ("<|im_start|>", "<|im_end|>")

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_tiny_chat_model(folder: Path, *, chat_template: bool = True) -> Path:
    """Write the model into `folder` (made where it is missing) and return it. Every byte is a token."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    described = {"bos_token": None, "eos_token": "<|im_end|>"}
    if chat_template:
        described["chat_template"] = TEMPLATE
    (folder / "tokenizer_config.json").write_text(json.dumps(described))
    vocab = tokenizer.get_vocab_size()
    (folder / "config.json").write_text(json.dumps(_config(vocab, tokenizer.token_to_id("<|im_end|>"))))
    save_file(_weights(tokenizer), folder / "model.safetensors")
    return folder


def _tokenizer() -> Tokenizer:
    words = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *SPECIAL_TOKENS]
    tokenizer = Tokenizer(BPE(vocab={word: index for index, word in enumerate(words)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    return tokenizer


def _config(vocab: int, eos: int | None) -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": vocab,
        "hidden_size": HIDDEN,
        "intermediate_size": 2 * HIDDEN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "max_position_embeddings": CONTEXT_WINDOW,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "eos_token_id": eos,
        "bos_token_id": None,
        "torch_dtype": "float32",
    }


def _weights(tokenizer: Tokenizer) -> dict[str, npt.NDArray[np.float32]]:
    random = np.random.default_rng(7)
    vocab = tokenizer.get_vocab_size()

    def matrix(rows: int, columns: int) -> npt.NDArray[np.float32]:
        return random.standard_normal((rows, columns), dtype=np.float32) / np.float32(np.sqrt(columns))

    # Only letters have a row in the head: the model never ends a text by itself, and never breaks a character.
    head = np.zeros((vocab, HIDDEN), dtype=np.float32)
    for letter in string.ascii_letters:
        head[tokenizer.token_to_id(letter)] = random.standard_normal(HIDDEN, dtype=np.float32)
    tensors = {
        "model.embed_tokens.weight": matrix(vocab, HIDDEN),
        "model.norm.weight": np.ones(HIDDEN, dtype=np.float32),
        "lm_head.weight": head,
    }
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        tensors |= {
            f"{at}input_layernorm.weight": np.ones(HIDDEN, dtype=np.float32),
            f"{at}post_attention_layernorm.weight": np.ones(HIDDEN, dtype=np.float32),
            f"{at}self_attn.q_proj.weight": matrix(HIDDEN, HIDDEN),
            f"{at}self_attn.k_proj.weight": matrix(KV_HEADS * HEAD_DIM, HIDDEN),
            f"{at}self_attn.v_proj.weight": matrix(KV_HEADS * HEAD_DIM, HIDDEN),
            f"{at}self_attn.o_proj.weight": matrix(HIDDEN, HIDDEN),
            f"{at}mlp.gate_proj.weight": matrix(2 * HIDDEN, HIDDEN),
            f"{at}mlp.up_proj.weight": matrix(2 * HIDDEN, HIDDEN),
            f"{at}mlp.down_proj.weight": matrix(HIDDEN, 2 * HIDDEN),
        }
    return tensors
