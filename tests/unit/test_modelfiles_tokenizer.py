"""Tokenizers built from what GGUF files and folders say."""

import json
from pathlib import Path

import pytest

from forebay.core.errors import ModelFileError
from forebay.modelfiles.fields import Fields
from forebay.modelfiles.gguf_tokenizer import tokenizer_from_gguf
from forebay.modelfiles.loading import load
from forebay.modelfiles.model import ModelFiles
from forebay.modelfiles.tokenizer import ModelTokenizer
from tests.support.tiny_models import tiny_model, write_gguf, write_huggingface

TEXTS = (
    "Hello, world!",
    "the quick brown fox jumps 1234567 times; it's 3.14 o'clock, they'LL say",
    "多语言文本：你好，世界。日本語も。",
    "emoji 🎉👩‍👩‍👧 and accents: naïve façade Ångström",
    "line\nbreaks\r\n\r\n\n   indented\n\ttabs\t\tend  ",
    "def f(x):\n    return x ** 2  # ½ of ②\n",
    "   leading and trailing   ",
    " ",
    "",
)


@pytest.mark.parametrize("text", TEXTS)
def test_smollm_text_survives_the_round_trip(smollm: ModelFiles, text: str) -> None:
    ids = smollm.tokenizer.encode(text, add_special_tokens=False)
    assert smollm.tokenizer.decode(ids) == text


def test_smollm_gives_each_digit_a_token_and_words_their_space(smollm: ModelFiles) -> None:
    tokenizer = smollm.tokenizer
    assert tokenizer.vocab_size == 49152
    pieces = [tokenizer.token_text(i) for i in tokenizer.encode("Hello 123 worlds\n", add_special_tokens=False)]
    assert pieces == ["Hello", "Ġ", "1", "2", "3", "Ġworlds", "Ċ"]
    assert tokenizer.encode("Hello", add_special_tokens=True) == tokenizer.encode("Hello", add_special_tokens=False)


def test_smollm_special_tokens_are_one_id_each(smollm: ModelFiles) -> None:
    tokenizer = smollm.tokenizer
    ids = tokenizer.encode("<|im_start|>user\nHi<|im_end|>", add_special_tokens=False)
    assert ids[0] == tokenizer.token_id("<|im_start|>") == 1
    assert ids[-1] == tokenizer.token_id("<|im_end|>") == 2
    assert smollm.eos_token_ids >= {2}
    assert tokenizer.decode(ids) == "user\nHi"
    assert tokenizer.decode(ids, skip_special_tokens=False) == "<|im_start|>user\nHi<|im_end|>"


def test_smollm_chat_prompt_is_the_models_own(smollm: ModelFiles) -> None:
    assert smollm.chat_template is not None
    prompt = smollm.chat_template.render([{"role": "user", "content": "Hi"}])
    assert prompt.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    assert prompt.startswith("<|im_start|>system\n")


@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_gguf_tokenizer_cuts_text_as_the_tokenizer_json_it_was_made_from(architecture: str, tmp_path: Path) -> None:
    model = tiny_model(architecture)
    write_gguf(model, tmp_path / "tiny.gguf")
    write_huggingface(model, tmp_path / "tiny")
    from_gguf = load(str(tmp_path / "tiny.gguf"), tmp_path).tokenizer
    from_json = load(str(tmp_path / "tiny"), tmp_path).tokenizer
    for text in (*TEXTS, "<|im_start|>user\nnow<|im_end|>", "e\u0301 composed"):
        ids = from_json.encode(text, add_special_tokens=False)
        assert from_gguf.encode(text, add_special_tokens=False) == ids
        assert from_gguf.decode(ids) == from_json.decode(ids)


def test_llama3_tokenizer_begins_raw_text_with_its_begin_token(tmp_path: Path) -> None:
    write_gguf(tiny_model("llama"), tmp_path / "tiny.gguf")
    tokenizer = load(str(tmp_path / "tiny.gguf"), tmp_path).tokenizer
    bare = tokenizer.encode("the fox", add_special_tokens=False)
    assert tokenizer.encode("the fox", add_special_tokens=True) == [1, *bare]


@pytest.mark.parametrize(("pre", "expected"), [("llama-bpe", ["fox"]), ("qwen2", ["f", "o", "x"])])
def test_only_llama3_takes_whole_words_that_no_merge_reaches(pre: str, expected: list[str]) -> None:
    tokenizer = tokenizer_from_gguf(
        Fields(
            {
                "tokenizer.ggml.model": "gpt2",
                "tokenizer.ggml.pre": pre,
                "tokenizer.ggml.tokens": ["f", "o", "x", "fox"],
                "tokenizer.ggml.merges": [],
            },
            Path("model.gguf"),
        )
    )
    assert pieces_of(tokenizer, "fox") == expected


SCORES = {"▁": -9.0, "h": -8.0, "e": -7.0, "l": -6.0, "o": -5.0, "he": -1.0, "ll": -2.0, "▁he": -3.0, "llo": -0.5}


def sentence_piece_fields(**values: object) -> Fields:
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *SCORES, "<tool>", "▁hello"]
    return Fields(
        {
            "tokenizer.ggml.model": "llama",
            "tokenizer.ggml.tokens": pieces,
            "tokenizer.ggml.scores": [0.0] * 259 + [*SCORES.values(), 0.0, -4.0],
            "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * len(SCORES) + [4, 1],
            "tokenizer.ggml.bos_token_id": 1,
            "tokenizer.ggml.eos_token_id": 2,
            **{f"tokenizer.ggml.{name}": value for name, value in values.items()},
        },
        Path("model.gguf"),
    )


def pieces_of(tokenizer: ModelTokenizer, text: str, *, add_special_tokens: bool = False) -> list[str]:
    return [tokenizer.token_text(i) for i in tokenizer.encode(text, add_special_tokens=add_special_tokens)]


def test_sentence_pieces_join_by_score() -> None:
    tokenizer = tokenizer_from_gguf(sentence_piece_fields())
    # `he` (-1) is joined before `▁he` (-3), `ll` (-2) before `llo` (-0.5), and `▁hello` from both last.
    assert pieces_of(tokenizer, "hello") == ["▁hello"]
    assert pieces_of(tokenizer, "helo") == ["▁he", "l", "o"]
    assert pieces_of(tokenizer, "ello") == ["▁", "e", "llo"]


def test_unknown_characters_become_bytes_and_return() -> None:
    tokenizer = tokenizer_from_gguf(sentence_piece_fields())
    assert pieces_of(tokenizer, "é") == ["▁", "<0xC3>", "<0xA9>"]
    for text in ("hello é🎉\n", " two  spaces ", "中文"):
        assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text


def test_space_prefix_is_honoured() -> None:
    tokenizer = tokenizer_from_gguf(sentence_piece_fields(add_space_prefix=False))
    assert pieces_of(tokenizer, "he hello") == ["he", "▁hello"]
    assert tokenizer.decode(tokenizer.encode(" he", add_special_tokens=False)) == " he"


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, ["<s>", "▁he"]),
        ({"add_bos_token": False}, ["▁he"]),
        ({"add_eos_token": True}, ["<s>", "▁he", "</s>"]),
    ],
)
def test_begin_and_end_tokens_are_added_as_the_file_says(values: dict[str, object], expected: list[str]) -> None:
    tokenizer = tokenizer_from_gguf(sentence_piece_fields(**values))
    assert pieces_of(tokenizer, "he", add_special_tokens=True) == expected


def test_user_defined_tokens_are_found_and_shown_but_control_tokens_are_not() -> None:
    tokenizer = tokenizer_from_gguf(sentence_piece_fields(add_space_prefix=False))
    ids = tokenizer.encode("he<tool></s>", add_special_tokens=False)
    assert [tokenizer.token_text(i) for i in ids] == ["he", "<tool>", "</s>"]
    assert tokenizer.decode(ids) == "he<tool>"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"model": "t5"}, "tokenizer kind 't5' cannot be built; `gpt2` and `llama` can"),
        ({"scores": [0.0]}, "1 scores for 270 tokens"),
        ({"token_type": [1]}, "1 token types for 270 tokens"),
        ({"tokens": "abc"}, "'tokenizer.ggml.tokens' must be a list"),
        ({"tokens": None}, "'tokenizer.ggml.tokens' must be a list, but it is missing"),
        ({"model": "gpt2", "pre": "tekken", "merges": []}, "'tekken' of cutting text into words is not known.*qwen2"),
        ({"model": "gpt2", "pre": "qwen2", "merges": ["q x"]}, "tokenizer is damaged"),
    ],
)
def test_what_cannot_be_built_is_named(values: dict[str, object], words: str) -> None:
    with pytest.raises(ModelFileError, match=r"model\.gguf: .*" + words):
        tokenizer_from_gguf(sentence_piece_fields(**values))


def test_a_folder_without_tokenizer_json_says_what_to_add(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"has no tokenizer\.json: add"):
        ModelTokenizer.from_json(tmp_path / "tokenizer.json")
    (tmp_path / "tokenizer.model").touch()
    with pytest.raises(ModelFileError, match=r"only in the old form.*save_pretrained"):
        ModelTokenizer.from_json(tmp_path / "tokenizer.json")
    (tmp_path / "openvino_tokenizer.xml").touch()
    with pytest.raises(ModelFileError, match=r"only as openvino_tokenizer\.xml.*copy tokenizer\.json"):
        ModelTokenizer.from_json(tmp_path / "tokenizer.json")
    (tmp_path / "tokenizer.json").write_text('{"model": 1}')
    with pytest.raises(ModelFileError, match="not a tokenizer that can be read"):
        ModelTokenizer.from_json(tmp_path / "tokenizer.json")


def test_limits_left_by_a_training_run_are_dropped(tmp_path: Path) -> None:
    model = tiny_model("qwen2")
    path = tmp_path / "tokenizer.json"
    model.tokenizer.save(str(path))
    described = json.loads(path.read_text())
    described["truncation"] = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    described["padding"] = {
        "strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": None,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "<|endoftext|>",
    }  # fmt: skip
    path.write_text(json.dumps(described))
    tokenizer = ModelTokenizer.from_json(path)
    text = "the quick brown fox"
    assert tokenizer.decode(tokenizer.encode(text, add_special_tokens=False), skip_special_tokens=False) == text


def test_ids_beyond_the_vocabulary_have_no_text() -> None:
    tokenizer = tokenizer_from_gguf(sentence_piece_fields())
    assert tokenizer.token_text(10_000) == ""
    assert tokenizer.token_id("not there") is None


@pytest.mark.parametrize("text", TEXTS)
def test_the_bytes_of_smollms_tokens_are_those_of_the_text(smollm: ModelFiles, text: str) -> None:
    tokenizer = smollm.tokenizer
    ids = tokenizer.encode(f"<|im_start|>{text}<|im_end|>", add_special_tokens=False)
    assert b"".join(map(tokenizer.token_bytes, ids)) == f"<|im_start|>{text}<|im_end|>".encode()


def test_bytes_of_a_byte_level_vocabulary(smollm: ModelFiles) -> None:
    tokenizer = smollm.tokenizer
    assert [tokenizer.token_bytes(i) for i in tokenizer.encode(" worlds\n", add_special_tokens=False)] == [
        b" worlds",
        b"\n",
    ]
    single = [tokenizer.token_bytes(i) for i in tokenizer.encode("\U0001f9ff", add_special_tokens=False)]
    assert b"".join(single) == b"\xf0\x9f\xa7\xbf"
    assert len(single) > 1
    assert tokenizer.token_bytes(tokenizer.vocab_size) == b""


def test_bytes_of_a_sentence_piece_vocabulary() -> None:
    tokenizer = tokenizer_from_gguf(sentence_piece_fields())
    text = "hello é🎉\n"
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert b"".join(map(tokenizer.token_bytes, ids)) == f" {text}".encode()
    assert tokenizer.token_bytes(token_of(tokenizer, "<0xAB>")) == b"\xab"
    assert tokenizer.token_bytes(token_of(tokenizer, "▁hello")) == b" hello"
    assert tokenizer.token_bytes(token_of(tokenizer, "<tool>")) == b"<tool>"
    assert tokenizer.token_bytes(token_of(tokenizer, "</s>")) == b"</s>"
    assert tokenizer.token_bytes(10_000) == b""


def test_added_tokens_are_told_special_or_not() -> None:
    tokenizer = tokenizer_from_gguf(sentence_piece_fields())
    assert tokenizer.added_tokens.keys() >= {"<s>", "</s>", "<tool>"}
    assert tokenizer.added_tokens["<tool>"] == token_of(tokenizer, "<tool>")


def test_its_json_makes_the_same_tokenizer(smollm: ModelFiles, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(smollm.tokenizer.to_json())
    again = ModelTokenizer.from_json(tmp_path / "tokenizer.json")
    for text in TEXTS:
        assert again.encode(text, add_special_tokens=False) == smollm.tokenizer.encode(text, add_special_tokens=False)


def token_of(tokenizer: ModelTokenizer, text: str) -> int:
    number = tokenizer.token_id(text)
    assert number is not None
    return number
