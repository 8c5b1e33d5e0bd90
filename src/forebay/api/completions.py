"""`POST /v1/completions`: what goes in and what comes out."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from forebay.api.decoding import FieldError
from forebay.api.generation import (
    MAX_CHOICES,
    GenerationFields,
    NumLogprobs,
    ServiceTier,
    TokenId,
    Usage,
    refuse_unsupported,
)
from forebay.api.logprobs import CompletionLogprobs

FinishReason = Literal["stop", "length"]

DEFAULT_MAX_TOKENS = 16
"""OpenAI's."""

COMPLETION_REFUSED: Mapping[str, tuple[object, ...]] = {
    "best_of": (1,),
    "suffix": ("",),
}
"""As `generation.REFUSED`, for the fields that only completions have."""


class CompletionRequest(GenerationFields, frozen=True, kw_only=True, omit_defaults=True):
    """The request. `prompt` is a text or a list of token ids, or a list of such prompts, each answered `n` times.

    `max_tokens` 0 generates nothing, which makes sense with `echo` or `prompt_logprobs` only.
    """

    prompt: str | Annotated[list[str | TokenId | list[TokenId]], msgspec.Meta(min_length=1)]
    echo: bool | None = None
    logprobs: NumLogprobs | None = None
    add_special_tokens: bool | None = None

    best_of: int | None = None
    suffix: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_unsupported(self, COMPLETION_REFUSED)
        if self.max_tokens == 0 and not self.echo and self.prompt_logprobs is None:
            raise FieldError("max_tokens", "0 makes sense only with `echo` or `prompt_logprobs`; ask for 1 or more.")
        if len(self.prompts) * self.num_choices > MAX_CHOICES:
            raise FieldError("prompt", f"more than {MAX_CHOICES} answers in all (prompts × n); send several requests.")

    @property
    def prompts(self) -> list[str | list[int]]:
        """The texts or token ids to continue, each on its own. Raises FieldError where they are neither."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        if all(isinstance(each, int) for each in self.prompt):
            return [[each for each in self.prompt if isinstance(each, int)]]
        if any(isinstance(each, int) for each in self.prompt):
            raise FieldError("prompt", "must be either texts or token ids, not both.")
        return [each for each in self.prompt if not isinstance(each, int)]

    @property
    def output_limit(self) -> int:
        """Most tokens to generate; the default is less where the context leaves less."""
        return DEFAULT_MAX_TOKENS if self.max_tokens is None else self.max_tokens


class CompletionChoice(msgspec.Struct, frozen=True, kw_only=True):
    """One continuation, or its part of a chunk.

    `prompt_logprobs` is vLLM's: for each token of the prompt but the first (None), by token id in decimal, `logprob`,
    `rank` (from 1; None for one that is not among the asked for) and `decoded_token`.
    """

    text: str
    finish_reason: FinishReason | None
    index: int = 0
    logprobs: CompletionLogprobs | None = None
    stop_reason: int | str | None = None
    prompt_logprobs: list[dict[str, Any] | None] | UnsetType = UNSET


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """The whole response, or one event of a stream (`usage` as in a chat's chunk). `created` is in Unix seconds."""

    id: str
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | UnsetType | None = UNSET
    service_tier: ServiceTier | UnsetType = UNSET
    object: Literal["text_completion"] = "text_completion"
