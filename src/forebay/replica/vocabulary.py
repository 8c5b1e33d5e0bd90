"""What a model's tokens are called in an answer."""

from collections.abc import Callable
from functools import lru_cache

from forebay.modelfiles.model import ModelFiles
from forebay.prompting.known_tokens import KnownTokens

REMEMBERED_TOKENS = 2**14
"""Whose bytes are kept at hand: with log-probabilities, each step asks for those of many."""

_LETTER = "a"


class Vocabulary(KnownTokens):
    """One model's tokens, their bytes, and how words are spelled with them."""

    def __init__(self, model: ModelFiles) -> None:
        super().__init__(model)
        self._tokenizer = model.tokenizer
        self.bytes_of: Callable[[int], bytes] = lru_cache(REMEMBERED_TOKENS)(model.tokenizer.token_bytes)
        """What a token stands for: UTF-8, but it may begin or end within a character."""
        self.is_hidden: Callable[[int], bool] = lru_cache(REMEMBERED_TOKENS)(self._is_hidden)
        """Whether a token is left out of a text without special tokens."""

    def _is_hidden(self, token_id: int) -> bool:
        # A blank may be nothing too, where it stands alone.
        hidden = not self._tokenizer.decode([token_id])
        return hidden and bool(self._tokenizer.decode([token_id], skip_special_tokens=False))

    def spellings(self, word: str) -> list[tuple[int, ...]]:
        """The token sequences that write `word` at the beginning of a text and, where it differs, after a blank; one
        of whitespace alone, at the beginning and after a letter.
        """
        bare = word.lstrip()
        if not bare:
            return self._blank_spellings(word)
        first = tuple(self._tokenizer.encode(bare, add_special_tokens=False))
        after_blank = tuple(self._tokenizer.encode(f" {bare}", add_special_tokens=False))
        if not first:
            return []
        # A blank that is a token of its own adds nothing: the word behind it is written as at the beginning.
        return [first] if after_blank[-len(first) :] == first else [first, after_blank]

    def _blank_spellings(self, blank: str) -> list[tuple[int, ...]]:
        first = tuple(self._tokenizer.encode(blank, add_special_tokens=False))
        letter = self._tokenizer.encode(_LETTER, add_special_tokens=False)
        joined = self._tokenizer.encode(_LETTER + blank, add_special_tokens=False)
        after_letter = tuple(joined[len(letter) :]) if joined[: len(letter)] == letter else ()
        return [each for each in dict.fromkeys((first, after_letter)) if each]
