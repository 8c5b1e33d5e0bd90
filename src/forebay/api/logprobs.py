"""Log-probabilities, as chat and as text completions tell them."""

import msgspec


class TopLogprob(msgspec.Struct, frozen=True, kw_only=True):
    """A token, its text and its bytes (a token may be part of a character) and its natural log-probability."""

    token: str
    logprob: float
    bytes: list[int]


class ChatTokenLogprob(TopLogprob, frozen=True, kw_only=True):
    """A token of the answer, and the likeliest ones at its place."""

    top_logprobs: list[TopLogprob]


class ChatLogprobs(msgspec.Struct, frozen=True, kw_only=True):
    """Those of an answer, or of a chunk's part of it."""

    content: list[ChatTokenLogprob]
    refusal: None = None


class CompletionLogprobs(msgspec.Struct, frozen=True, kw_only=True):
    """One entry for each token. `text_offset` counts characters from the beginning of the choice's text.

    The first token of an echoed prompt has no log-probability: None.
    """

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None] | None
    text_offset: list[int]
