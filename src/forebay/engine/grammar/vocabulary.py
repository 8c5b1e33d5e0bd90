"""A model's tokens as the grammar library sees them, and masks over them."""

import json
from typing import Any

import numpy as np
import numpy.typing as npt
from llguidance import LLMatcher, LLTokenizer

from forebay.core.errors import InvalidRequest
from forebay.modelfiles.tokenizer import ModelTokenizer

Mask = npt.NDArray[np.uint32]
"""Packed bits: token t in bit t & 31 of word t >> 5."""


class Vocabulary:
    """Built once for each model; takes about 0.4 s and 40 MB for 50,000 tokens. Safe to use from several threads."""

    def __init__(self, tokenizer: ModelTokenizer, vocab_size: int, eos_token_ids: frozenset[int]) -> None:
        """Raises InvalidRequest where the library cannot use this tokenizer."""
        self._words = -(-vocab_size // 32)
        self._padding = _padding(min(tokenizer.vocab_size, vocab_size), self._words)
        self._added = frozenset(tokenizer.added_tokens.values())
        self.eos_token_ids = eos_token_ids
        try:
            self.library = LLTokenizer(
                _within(tokenizer, vocab_size), n_vocab=vocab_size, eos_token=sorted(eos_token_ids)
            )
        except ValueError as error:
            raise InvalidRequest(f"this model's tokenizer allows no structured output: {error}") from error

    def mask(self, matcher: LLMatcher) -> Mask:
        """What may follow; other threads run meanwhile. Where the matcher fails, that is to be asked of it."""
        mask = np.empty(self._words, np.uint32)
        matcher.unsafe_compute_mask_ptr(mask.ctypes.data, mask.nbytes)
        if self._padding is not None:
            tail = mask[-len(self._padding) :]
            tail &= self._padding
        set_words = np.flatnonzero(mask)
        if set_words.size == 1:
            self._correct_forced(matcher, mask, int(set_words[0]))
        return mask

    def forced(self, matcher: LLMatcher) -> list[int]:
        """The tokens that must follow; without end tokens, and up to one that the matcher would not take after all."""
        tokens = matcher.compute_ff_tokens()
        end = next((place for place, token in enumerate(tokens) if token in self.eos_token_ids), len(tokens))
        return tokens[: matcher.validate_tokens(tokens[:end])] if end else []

    def _correct_forced(self, matcher: LLMatcher, mask: Mask, word: int) -> None:
        """Where one text alone may follow, the library cuts it as the tokenizer would, and so allows an added token for
        a text that happens to be written like one; but its matcher takes only ordinary tokens for a text.
        """
        bits = int(mask[word])
        token = word * 32 + bits.bit_length() - 1
        if bits & (bits - 1) or token not in self._added or matcher.validate_tokens([token]):
            return
        text = matcher.compute_ff_bytes().decode("utf-8", errors="ignore")
        plain = self.library.greedy_tokenize(text)[:1]
        if plain and matcher.validate_tokens(plain):
            mask[word] = 0
            mask[plain[0] >> 5] = 1 << (plain[0] & 31)


def _padding(known: int, words: int) -> Mask | None:
    """What keeps bits from `known` on clear, in the last words; None where that is none."""
    first = known // 32
    if known == words * 32:
        return None
    keep = np.zeros(words - first, np.uint32)
    keep[0] = (1 << (known & 31)) - 1
    return keep


def _within(tokenizer: ModelTokenizer, vocab_size: int) -> str:
    """The tokenizer without added tokens that the model has no logits for."""
    text = tokenizer.to_json()
    if tokenizer.vocab_size <= vocab_size:
        return text
    described: dict[str, Any] = json.loads(text)
    described["added_tokens"] = [token for token in described["added_tokens"] if token["id"] < vocab_size]
    return json.dumps(described)
