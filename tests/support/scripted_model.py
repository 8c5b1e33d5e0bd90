"""A tiny llama that says exactly what it was given to say: a whole Hugging Face folder, written in milliseconds.

Attention and feed-forward layers add nothing, so the next token depends on the last one alone. Each piece of the script
is one token whose embedding has a direction of its own, and the next piece's row in the head points there. All other
tokens share one direction, from which the script begins: after any prompt whose end is not itself a piece.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

END = "<|im_end|>"
HEADS = 2
CONTEXT_WINDOW = 8192
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write_scripted_model(
    folder: Path,
    pieces: Sequence[str],
    *,
    chat_template: str = CHAT_TEMPLATE,
    special_tokens: Sequence[str] = ("<|im_start|>",),
    endless: bool = False,
    context_window: int = CONTEXT_WINDOW,
) -> Path:
    """Write the model into `folder` (made where it is missing) and return it.

    At temperature 0 it says `pieces` and the end token; an `endless` one says them over and over again. The pieces must
    differ from each other, for each is one token; those among `special_tokens` are special ones. Every byte is a token.
    """
    assert len({*pieces, END}) == len(pieces) + 1, "a piece that comes twice would have two followers"
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer(pieces, special_tokens)
    tokenizer.save(str(folder / "tokenizer.json"))
    described = {"bos_token": None, "eos_token": END, "chat_template": chat_template}
    (folder / "tokenizer_config.json").write_text(json.dumps(described))
    hidden = -(-(len(pieces) + 1) // 64) * 64
    config = _config(tokenizer.get_vocab_size(), hidden, tokenizer.token_to_id(END), context_window)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(_weights(tokenizer, pieces, hidden, endless=endless), folder / "model.safetensors")
    return folder


def _tokenizer(pieces: Sequence[str], special_tokens: Sequence[str]) -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE(vocab={letter: index for index, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = {END, *special_tokens}
    for text in dict.fromkeys((END, *special_tokens, *pieces)):
        token = AddedToken(text, special=text in special, normalized=False)
        (tokenizer.add_special_tokens if text in special else tokenizer.add_tokens)([token])
    return tokenizer


def _config(vocab: int, hidden: int, end: int, context_window: int) -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": vocab,
        "hidden_size": hidden,
        "intermediate_size": hidden,
        "num_hidden_layers": 1,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "head_dim": hidden // HEADS,
        "max_position_embeddings": context_window,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "eos_token_id": end,
        "bos_token_id": None,
        "torch_dtype": "float32",
    }


def _weights(
    tokenizer: Tokenizer, pieces: Sequence[str], hidden: int, *, endless: bool
) -> dict[str, npt.NDArray[np.float32]]:
    vocab = tokenizer.get_vocab_size()
    embedding = np.zeros((vocab, hidden), dtype=np.float32)
    embedding[:, 0] = 1
    head = np.zeros((vocab, hidden), dtype=np.float32)
    for place, text in enumerate(pieces):
        token = tokenizer.token_to_id(text)
        embedding[token] = np.eye(hidden, dtype=np.float32)[place + 1]
        head[token, place] = 1
    head[tokenizer.token_to_id(pieces[0] if endless else END), len(pieces)] = 1
    nothing = np.zeros((hidden, hidden), dtype=np.float32)
    at = "model.layers.0."
    projections = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj")
    return {
        "model.embed_tokens.weight": embedding,
        "model.norm.weight": np.ones(hidden, dtype=np.float32),
        "lm_head.weight": head,
        f"{at}input_layernorm.weight": np.ones(hidden, dtype=np.float32),
        f"{at}post_attention_layernorm.weight": np.ones(hidden, dtype=np.float32),
        **{f"{at}{name}.weight": nothing for name in (*projections, "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")},
    }
