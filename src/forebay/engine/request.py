"""What goes into the engine and what comes out."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

FinishReason = Literal["stop", "length"]


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
class SamplingParams:
    """How to choose each next token.

    `temperature` 0 is greedy. `top_k` 0 and `top_p` 1 do not restrict. `max_tokens` None means what the context leaves.
    `seed` None draws a fresh one. Generation ends at any text of `stop`, which is left out of the output, or at one of
    the model's end tokens.
    """

    max_tokens: int | None = None
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    """Go on past the model's end tokens."""


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
    """What one step added to a generation. The counts are totals so far; the last update has a `finish_reason`."""

    text: str
    token_ids: tuple[int, ...]
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    finish_reason: FinishReason | None = None
