"""What both kinds of completion requests have in common."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from forebay.api.decoding import FieldError, bounded

FinishReason = Literal["stop", "length"]

MAX_STOP_STRINGS = 16

ModelName = Annotated[str, msgspec.Meta(min_length=1)]
TokenCount = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
StopString = Annotated[str, msgspec.Meta(min_length=1)]
SmallInt = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
LongInt = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Penalty = Annotated[float, msgspec.Meta(ge=-2, le=2)]

HARMLESS: Mapping[str, tuple[object, ...]] = {
    "n": (1,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "logit_bias": ({},),
    "repetition_penalty": (1,),
    "min_p": (0,),
    "min_tokens": (0,),
    "stop_token_ids": ([],),
    "bad_words": ([],),
    "allowed_token_ids": (),
    "include_stop_str_in_output": (False,),
    "skip_special_tokens": (True,),
    "truncate_prompt_tokens": (),
    "prompt_logprobs": (),
    "use_beam_search": (False,),
    "structured_outputs": (),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
}
"""Fields that OpenAI or vLLM have and that are not run yet → the values with which they change nothing."""


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to stream. `include_usage` asks for a last chunk with the token counts."""

    include_usage: bool | None = None


class GenerationFields(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Fields of OpenAI's chat and text completions, with vLLM's extensions. None is the same as not sent.

    `top_k` 0 and -1 do not restrict. `priority` is vLLM's: lower goes first. `cache_salt` parts the prefix cache.
    `ignore_eos` goes on past the model's end tokens, to `max_tokens`.
    """

    model: ModelName
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: TokenCount | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    top_k: Annotated[int, msgspec.Meta(ge=-1, le=2**31 - 1)] | None = None
    seed: LongInt | None = None
    stop: StopString | Annotated[list[StopString], msgspec.Meta(max_length=MAX_STOP_STRINGS)] | None = None
    ignore_eos: bool | None = None
    priority: SmallInt | None = None
    cache_salt: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    user: str | None = None
    metadata: dict[str, str] | None = None

    n: Annotated[int, msgspec.Meta(ge=1, le=128)] | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    logit_bias: dict[str, float] | None = None
    repetition_penalty: float | None = None
    min_p: float | None = None
    min_tokens: int | None = None
    stop_token_ids: list[int] | None = None
    bad_words: list[str] | None = None
    allowed_token_ids: list[int] | None = None
    include_stop_str_in_output: bool | None = None
    skip_special_tokens: bool | None = None
    truncate_prompt_tokens: int | None = None
    prompt_logprobs: int | None = None
    use_beam_search: bool | None = None
    structured_outputs: Any = None
    guided_json: Any = None
    guided_regex: Any = None
    guided_choice: Any = None
    guided_grammar: Any = None

    def __post_init__(self) -> None:
        refuse_unsupported(self, HARMLESS)
        if self.stream_options is not None and not self.stream:
            raise FieldError("stream_options", "allowed only together with `stream: true`.")

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with the token counts."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    @property
    def stop_strings(self) -> tuple[str, ...]:
        if self.stop is None:
            return ()
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)


def refuse_unsupported(request: msgspec.Struct, harmless: Mapping[str, tuple[object, ...]]) -> None:
    """Raise FieldError where a field of `harmless` has a value that would change the output."""
    for field, values in harmless.items():
        value = getattr(request, field)
        if value is not None and value not in values:
            allowed = " or ".join(msgspec.json.encode(each).decode() for each in (*values, None))
            got = bounded(msgspec.json.encode(value).decode())
            raise FieldError(field, f"unsupported value {got}; this model server runs only {allowed} here.")


class PromptTokensDetails(msgspec.Struct, frozen=True, kw_only=True):
    """`cached_tokens` of the prompt were found in the prefix cache."""

    cached_tokens: int | None = None


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Token counts of one request."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails | None = None

    @classmethod
    def of(cls, *, prompt_tokens: int, cached_tokens: int, completion_tokens: int) -> "Usage":
        return cls(
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            total_tokens=prompt_tokens + completion_tokens,
            prompt_tokens_details=PromptTokensDetails(cached_tokens=cached_tokens),
        )
