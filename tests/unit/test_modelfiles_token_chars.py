"""The least number of tokens of a text is never above the real one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from forebay.modelfiles.model import ModelFiles
from forebay.modelfiles.token_chars import token_chars
from forebay.modelfiles.tokenizer import ModelTokenizer

ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())


def byte_level(words: list[str] = ALPHABET) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(vocab={word: index for index, word in enumerate(words)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer


@pytest.mark.parametrize(
    "text", ["a" * 5000, " " * 5000, "-" * 5000, "é€😀" * 500, "\x04" * 5000, "\U000f0000" * 500, ""]
)
def test_the_default_model_s_least(smollm: ModelFiles, text: str) -> None:
    least = smollm.tokenizer.least_tokens(text)
    assert least <= len(smollm.tokenizer.encode(text, add_special_tokens=False))
    if len(text) == 5000 and text[0] != "\x04":
        assert least > 5000 / 200


@given(st.text(st.sampled_from("a \n-é가\u1100\u1161\u11a8e\u0301\x04"), max_size=200))
def test_composed_characters_count_as_what_they_were(text: str) -> None:
    tokenizer = byte_level()
    tokenizer.normalizer = normalizers.NFC()
    mine = ModelTokenizer(tokenizer)
    assert mine.least_tokens(text) <= len(mine.encode(text, add_special_tokens=False))
    # The longest way to write a byte has two bytes, and three characters at most become one.
    assert mine.least_tokens("a" * 30) == 5


def test_a_token_that_is_one_of_its_own_counts_in_full() -> None:
    tokenizer = byte_level()
    tokenizer.add_special_tokens(["<|a-long-one|>"])
    assert ModelTokenizer(tokenizer).least_tokens("<|a-long-one|>" * 7) == 7


def test_nothing_is_said_of_tokenizers_that_lose_text() -> None:
    strips, splits, swallows = byte_level(), byte_level(), byte_level()
    strips.normalizer = normalizers.Strip()
    splits.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(" ", "removed"), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    swallows.add_special_tokens([AddedToken("<end>", rstrip=True)])
    without_bytes = byte_level(ALPHABET[:100])
    words = Tokenizer(models.WordLevel({"a": 0, "?": 1}, unk_token="?"))
    for tokenizer in (strips, splits, swallows, without_bytes, words):
        assert token_chars(tokenizer) is None
    assert ModelTokenizer(words).least_tokens("a" * 1000) == 0
