"""`POST /v1/completions`: what goes in and what comes out."""

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from forebay.api.decoding import FieldError
from forebay.api.generation import FinishReason, GenerationFields, Usage, refuse_unsupported

DEFAULT_MAX_TOKENS = 16
"""OpenAI's."""

COMPLETION_HARMLESS: Mapping[str, tuple[object, ...]] = {
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
    "logprobs": (),
    "add_special_tokens": (True,),
    "response_format": ({"type": "text"},),
}
"""As `generation.HARMLESS`, for the fields that only completions have."""

TokenId = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class CompletionRequest(GenerationFields, frozen=True, kw_only=True, omit_defaults=True):
    """The request. `prompt` is one text or one list of token ids, alone or as the only element of a list."""

    prompt: str | list[str | TokenId | list[TokenId]]

    best_of: int | None = None
    echo: bool | None = None
    suffix: str | None = None
    logprobs: int | None = None
    add_special_tokens: bool | None = None
    response_format: dict[str, object] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_unsupported(self, COMPLETION_HARMLESS)
        _ = self.single_prompt

    @property
    def single_prompt(self) -> str | list[int]:
        """The text or token ids to continue. Raises FieldError where there are none, or several prompts."""
        prompt = self.prompt
        if isinstance(prompt, str):
            return prompt
        if not prompt:
            raise FieldError("prompt", "must not be empty.")
        token_ids = [each for each in prompt if isinstance(each, int)]
        if len(token_ids) == len(prompt):
            return token_ids
        if token_ids:
            raise FieldError("prompt", "must be either text or token ids, not both.")
        if len(prompt) > 1:
            raise FieldError("prompt", f"unsupported: {len(prompt)} prompts; send one prompt per request.")
        only = prompt[0]
        if not isinstance(only, str | list) or not only:
            raise FieldError("prompt[0]", "must not be empty.")
        return only

    @property
    def output_limit(self) -> int:
        """Most tokens to generate."""
        return self.max_tokens or DEFAULT_MAX_TOKENS


class CompletionChoice(msgspec.Struct, frozen=True, kw_only=True):
    """One continuation, or its part of a chunk."""

    text: str
    finish_reason: FinishReason | None
    index: int = 0
    logprobs: None = None


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """The whole response, or one event of a stream (`usage` as in a chat's chunk). `created` is in Unix seconds."""

    id: str
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | UnsetType | None = UNSET
    object: Literal["text_completion"] = "text_completion"
