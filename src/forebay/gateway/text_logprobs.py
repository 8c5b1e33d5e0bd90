"""Which of an answer's tokens make up its text: log-probabilities come for all that was generated, with markers,
thoughts and calls."""

from typing import Any

Token = dict[str, Any]
"""As a chat completion tells it: `token`, mostly also `bytes`."""


class TextLogprobs:
    """The tokens that have come and are not yet known to be of a text or of something else, in their order."""

    def __init__(self) -> None:
        self._tokens: list[Token] = []

    def add(self, tokens: list[Token]) -> None:
        self._tokens += tokens

    def clear(self) -> None:
        self._tokens = []

    def pass_over(self, text: str) -> None:
        """`text` was no text of the answer's: its tokens, and those before them, are done with."""
        if found := _span(self._tokens, text.encode()):
            self._tokens = self._tokens[found[1] :]

    def take(self, text: str, *, otherwise_all: bool) -> list[Token]:
        """The tokens of `text`, which leave with those before them. Where they cannot be told apart, that is all or
        none of them.
        """
        tokens = self._tokens
        if found := _span(tokens, text.encode()):
            self._tokens = tokens[found[1] :]
            return tokens[found[0] : found[1]]
        scattered = _subsequence(tokens, text.encode())
        if scattered is None:
            self._tokens = []
            return tokens if otherwise_all else []
        self._tokens = tokens[scattered[-1] + 1 :]
        return [tokens[index] for index in scattered]


def _span(tokens: list[Token], text: bytes) -> tuple[int, int] | None:
    """First and one after the last of the tokens that `text` first runs through, as a whole."""
    at = b"".join(map(_bytes, tokens)).find(text)
    if at < 0:
        return None
    first = last = position = 0
    for index, token in enumerate(tokens):
        end = position + len(_bytes(token))
        if end <= at:
            first = index + 1
        if position < at + len(text):
            last = index + 1
        position = end
    return first, last


def _subsequence(tokens: list[Token], text: bytes) -> list[int] | None:
    """Places of tokens that make up `text` with others between them, which are told in no text or elsewhere."""
    places: list[int] = []
    done = 0
    for index, token in enumerate(tokens):
        raw = _bytes(token)
        if raw and text.startswith(raw, done):
            places.append(index)
            done += len(raw)
    return places if places and done == len(text) else None


def _bytes(token: Token) -> bytes:
    """Some servers tell no bytes, or null for a special token."""
    raw: Any = token.get("bytes")
    if isinstance(raw, list):
        try:
            return bytes(raw)
        except (TypeError, ValueError):
            pass
    name: Any = token.get("token")
    return name.encode() if isinstance(name, str) else b""
