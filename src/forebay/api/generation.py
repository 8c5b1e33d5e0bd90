"""What both kinds of completion requests have in common."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from forebay.api.decoding import FieldError, bounded
from forebay.api.structured import ResponseFormat, StructuredOutputs

PUBLIC_PREFIX_HEADER = "X-Forebay-Public-Prefix-Tokens"
"""How many of the prompt's leading tokens are a registered platform prompt. For gateways; a client cannot say it."""

MAX_STOP_STRINGS = 16
MAX_CHOICES = 128
MAX_LOGPROBS = 20

ModelName = Annotated[str, msgspec.Meta(min_length=1)]
TokenCount = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
AnyCount = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
TokenId = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Text = Annotated[str, msgspec.Meta(min_length=1)]
SmallInt = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
LongInt = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Penalty = Annotated[float, msgspec.Meta(ge=-2, le=2)]
Bias = Annotated[float, msgspec.Meta(ge=-100, le=100)]
NumLogprobs = Annotated[int, msgspec.Meta(ge=0, le=MAX_LOGPROBS)]
TokenIdText = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,10}$")]
ServiceTier = Literal["auto", "default", "flex", "priority", "scale"]

REFUSED: Mapping[str, tuple[object, ...]] = {
    "store": (False,),
    "truncate_prompt_tokens": (),
    "use_beam_search": (False,),
    "guided_json": (),
    "guided_regex": (),
    "guided_choice": (),
    "guided_grammar": (),
}
"""Fields that OpenAI or vLLM have and that are not run → the values with which they change nothing."""

INSTEAD: Mapping[str, str] = {
    "store": "nothing that is asked or answered here is stored",
    "guided_json": "use `structured_outputs.json`",
    "guided_regex": "use `structured_outputs.regex`",
    "guided_choice": "use `structured_outputs.choice`",
    "guided_grammar": "use `structured_outputs.grammar`",
    "functions": "use `tools`",
    "function_call": "use `tool_choice`",
    "suffix": "no model here fills in the middle",
    "chat_template": "a model is run with its own template",
    "best_of": "use `n`",
}
"""What to do where a refused field was sent."""


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to stream. `include_usage` asks for a last chunk with the token counts; `continuous_usage_stats`, which is
    vLLM's, beside it for those so far in all others.
    """

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class GenerationFields(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Fields of OpenAI's chat and text completions, with vLLM's extensions. None is the same as not sent.

    `top_k` 0 and -1 do not restrict. `priority` is vLLM's: lower goes first. `cache_salt` parts the prefix cache.
    `service_tier` stands for a class where neither a gateway nor `priority` says one.
    """

    model: ModelName
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int, msgspec.Meta(ge=1, le=MAX_CHOICES)] | None = None
    max_tokens: AnyCount | None = None
    min_tokens: AnyCount | None = None
    temperature: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    top_k: Annotated[int, msgspec.Meta(ge=-1, le=2**31 - 1)] | None = None
    min_p: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    repetition_penalty: Annotated[float, msgspec.Meta(gt=0, le=10)] | None = None
    logit_bias: dict[TokenIdText, Bias] | None = None
    allowed_token_ids: Annotated[list[TokenId], msgspec.Meta(min_length=1)] | None = None
    bad_words: list[Text] | None = None
    seed: LongInt | None = None
    stop: Text | Annotated[list[Text], msgspec.Meta(max_length=MAX_STOP_STRINGS)] | None = None
    stop_token_ids: list[TokenId] | None = None
    include_stop_str_in_output: bool | None = None
    ignore_eos: bool | None = None
    skip_special_tokens: bool | None = None
    prompt_logprobs: NumLogprobs | None = None
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    priority: SmallInt | None = None
    cache_salt: Text | None = None
    service_tier: ServiceTier | None = None
    user: str | None = None
    metadata: dict[str, str] | None = None

    store: bool | None = None
    truncate_prompt_tokens: int | None = None
    use_beam_search: bool | None = None
    guided_json: Any = None
    guided_regex: Any = None
    guided_choice: Any = None
    guided_grammar: Any = None

    def __post_init__(self) -> None:
        refuse_unsupported(self, REFUSED)
        if self.stream_options is not None and not self.stream:
            raise FieldError("stream_options", "allowed only together with `stream: true`.")
        if self.prompt_logprobs is not None and self.stream:
            raise FieldError("prompt_logprobs", "not with `stream: true`; ask for the whole answer.")
        if self.structured_outputs is not None and self.response_format not in (None, ResponseFormat(type="text")):
            raise FieldError("structured_outputs", "not together with `response_format`; send one of them.")

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with the token counts."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    @property
    def continuous_usage(self) -> bool:
        """Whether each event of a stream has the token counts so far."""
        return self.include_usage and bool(self.stream_options and self.stream_options.continuous_usage_stats)

    @property
    def num_choices(self) -> int:
        """How many answers to one prompt."""
        return self.n or 1

    @property
    def stop_strings(self) -> tuple[str, ...]:
        if self.stop is None:
            return ()
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)


def refuse_unsupported(
    request: msgspec.Struct, refused: Mapping[str, tuple[object, ...]], instead: Mapping[str, str] = INSTEAD
) -> None:
    """Raise FieldError where a field of `refused` has a value that would change the output.

    `instead` says what to do then.
    """
    for field, values in refused.items():
        value = getattr(request, field)
        if value is not None and value not in values:
            allowed = " or ".join(msgspec.json.encode(each).decode() for each in (*values, None))
            got = bounded(msgspec.json.encode(value).decode())
            advice = instead.get(field, "leave it out")
            raise FieldError(field, f"unsupported value {got}; this model server runs only {allowed} here: {advice}.")


class PromptTokensDetails(msgspec.Struct, frozen=True, kw_only=True):
    """`cached_tokens` of the prompt were found in the prefix cache."""

    cached_tokens: int | None = None


class CompletionTokensDetails(msgspec.Struct, frozen=True, kw_only=True):
    """So many of the answer's tokens were reasoning."""

    reasoning_tokens: int


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Token counts of one request."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails | None = None
    completion_tokens_details: CompletionTokensDetails | None = None

    @classmethod
    def of(
        cls, *, prompt_tokens: int, cached_tokens: int, completion_tokens: int, reasoning_tokens: int | None = None
    ) -> "Usage":
        return cls(
            prompt_tokens=prompt_tokens,
            completion_tokens=completion_tokens,
            total_tokens=prompt_tokens + completion_tokens,
            prompt_tokens_details=PromptTokensDetails(cached_tokens=cached_tokens),
            completion_tokens_details=(
                None if reasoning_tokens is None else CompletionTokensDetails(reasoning_tokens=reasoning_tokens)
            ),
        )
