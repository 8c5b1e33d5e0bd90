"""Prompts of an exact number of tokens, made of natural text that every Python has: its own language reference."""

import random
from collections.abc import Callable, Sequence
from pydoc_data.topics import topics

_OPENING_TOKENS = 4
"""Random tokens at the start of every prompt, so that no two of them share a prefix."""


class PromptMaker:
    """Deals out prompts that share no first token run; the same seed deals the same ones."""

    def __init__(self, encode: Callable[[str], Sequence[int]], seed: int) -> None:
        self._tokens = list(encode("\n\n".join(topics[name] for name in sorted(topics))))
        self._random = random.Random(seed)

    def prompt(self, length: int) -> tuple[int, ...]:
        """`length` tokens: a random opening, then text from a random place."""
        opening = self._random.choices(self._tokens, k=_OPENING_TOKENS)
        rest = length - _OPENING_TOKENS
        start = self._random.randrange(len(self._tokens) - rest)
        return (*opening, *self._tokens[start : start + rest])

    def prompts(self, count: int, length: int) -> list[tuple[int, ...]]:
        return [self.prompt(length) for _ in range(count)]

    def after(self, prefix: Sequence[int], length: int) -> tuple[int, ...]:
        """`prefix` and `length` tokens more, unlike those of any other call."""
        return (*prefix, *self.prompt(length))
