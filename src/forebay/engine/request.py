"""What goes into the engine and what comes out."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, Protocol

FinishReason = Literal["stop", "length"]
Ending = Literal["stop", "length", "abort", "error"]
"""How a generation ended: by itself, because nobody wanted it any more, or because it failed."""


class PriorityClass(IntEnum):
    """The three classes; the lower number goes first."""

    INTERACTIVE = 0
    STANDARD = 1
    BATCH = 2

    @classmethod
    def of(cls, priority: int) -> "PriorityClass":
        """The class of a vLLM-style `priority` (any integer, lower first): 0 and below, 1, 2 and above."""
        return cls(min(max(priority, cls.INTERACTIVE), cls.BATCH))


@dataclass(frozen=True, slots=True)
class Grammar:
    """What a generation's text must match.

    `source` is JSON text for `json_schema` (a schema) and `choice` (a list of texts), a regular expression for `regex`,
    llguidance's Lark dialect for `lark`, and empty for `json_object`. With `after_token_id` the grammar begins only
    once that token was generated, such as the one that ends a model's reasoning.
    """

    kind: Literal["json_object", "json_schema", "regex", "choice", "lark"]
    source: str = ""
    after_token_id: int | None = None
    param: str | None = None
    """The request's field that says so, for errors."""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How to choose each next token, and when to end. The defaults restrict and change nothing.

    They apply in vLLM's order: grammar and allowed tokens, bans (`min_tokens`, `bad_words`), `logit_bias`, penalties,
    temperature (0 is greedy), `min_p`, `top_k`, `top_p`.
    """

    max_tokens: int | None = None
    """Most tokens to generate; None is what the context leaves."""
    min_tokens: int = 0
    """Until there are so many, no end token and no stop token is drawn."""
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    """Tokens less likely than this part of the likeliest one's probability are out."""
    repetition_penalty: float = 1.0
    """Divides positive and multiplies negative logits of tokens of the prompt and of what was generated."""
    presence_penalty: float = 0.0
    """Subtracted once from the logit of each generated token."""
    frequency_penalty: float = 0.0
    """Subtracted from a token's logit as often as it was generated."""
    logit_bias: tuple[tuple[int, float], ...] = ()
    """Added to the logits of these tokens; each id once."""
    allowed_token_ids: frozenset[int] | None = None
    bad_words: tuple[tuple[int, ...], ...] = ()
    """Token sequences that may not be completed."""
    seed: int | None = None
    """None draws a fresh one."""
    stop: tuple[str, ...] = ()
    """Texts that end the generation, wherever in the output they appear."""
    stop_token_ids: frozenset[int] = frozenset()
    """Tokens that end it, besides the model's own end tokens; their text is left out."""
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    """Go on past the model's end tokens."""
    skip_special_tokens: bool = True
    """Leave special tokens out of the text."""
    logprobs: int | None = None
    """Tell the log-probability of each token and of so many of the likeliest ones (0: of the token alone)."""
    prompt_logprobs: int | None = None
    """The same for each token of the prompt but the first; such a prompt is computed whole, prefix cached or not."""
    grammar: Grammar | None = None


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token's natural log-probability by the model itself (at temperature 1, before bias, penalty and grammar).

    `top` are the likeliest tokens of its position with theirs, in falling order.
    """

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One generation to run.

    `priority` is vLLM's: lower goes first. Blocks of the prefix cache are shared only between requests of one
    `cache_salt`, but for the first `public_prefix_tokens` of the prompt, which an operator has registered as a platform
    prompt.
    """

    request_id: str
    prompt_token_ids: tuple[int, ...]
    sampling: SamplingParams
    priority: int = PriorityClass.INTERACTIVE
    cache_salt: str = ""
    public_prefix_tokens: int = 0


@dataclass(frozen=True, slots=True)
class GenerationUpdate:
    """What one step added to a generation. The counts are totals so far; the last update has a `finish_reason`.

    `token_ids` are the step's tokens, an end or stop token included. `logprobs`, where they were asked for, are one for
    each of them but an end or stop token. `prompt_logprobs` come with the first update, one for each token of the
    prompt but the first.
    """

    text: str
    token_ids: tuple[int, ...]
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    finish_reason: FinishReason | None = None
    stop_reason: int | str | None = None
    """Which stop token or stop text ended it; None for an end token of the model and for `length`."""
    logprobs: tuple[TokenLogprob, ...] = ()
    prompt_logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class GenerationEnd:
    """What a generation came to, to the token, however it ended.

    Tokens of an aborted one are counted whether or not an update told of them. Its prompt is counted whole once the
    engine has begun with it, and not at all before.
    """

    ending: Ending
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


class GenerationWatcher(Protocol):
    """Is told of a generation in the event loop, without regard to how far its updates have been read."""

    def told(self, update: GenerationUpdate) -> None: ...

    def ended(self, end: GenerationEnd | None) -> None:
        """Called once, at the latest one step after the generation was closed. None where the engine itself is gone:
        nothing is known but what has been told."""
        ...
