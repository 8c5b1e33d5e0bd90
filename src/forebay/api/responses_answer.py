"""`POST /v1/responses`: what comes out."""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from forebay.api.responses import FunctionChoice, FunctionTool

ItemStatus = Literal["in_progress", "completed", "incomplete"]
ResponseStatus = Literal["in_progress", "completed", "incomplete", "failed"]


class OutputText(msgspec.Struct, frozen=True, kw_only=True):
    """A text of the model's. Each of `logprobs` is as in a chat completion."""

    text: str
    annotations: list[Any] = msgspec.field(default_factory=list[Any])
    logprobs: list[dict[str, Any]] = msgspec.field(default_factory=list[dict[str, Any]])
    type: Literal["output_text"] = "output_text"


class OutputRefusal(msgspec.Struct, frozen=True, kw_only=True):
    """What the model said where it would not answer; only some servers tell it apart."""

    refusal: str
    type: Literal["refusal"] = "refusal"


class ReasoningText(msgspec.Struct, frozen=True, kw_only=True):
    """What the model thought, in its own words."""

    text: str
    type: Literal["reasoning_text"] = "reasoning_text"


class OutputMessage(msgspec.Struct, frozen=True, kw_only=True):
    """What the model said."""

    id: str
    content: list[OutputText | OutputRefusal]
    status: ItemStatus
    role: Literal["assistant"] = "assistant"
    type: Literal["message"] = "message"


class OutputReasoning(msgspec.Struct, frozen=True, kw_only=True):
    """What the model thought before. A summary is never made."""

    id: str
    content: list[ReasoningText]
    status: ItemStatus
    summary: list[Any] = msgspec.field(default_factory=list[Any])
    type: Literal["reasoning"] = "reasoning"


class OutputCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a function; `arguments` is JSON text, as the model wrote it."""

    id: str
    call_id: str
    name: str
    arguments: str
    status: ItemStatus
    type: Literal["function_call"] = "function_call"


OutputItem = OutputMessage | OutputReasoning | OutputCall


class InputTokensDetails(msgspec.Struct, frozen=True, kw_only=True):
    """`cached_tokens` of the input were found in the prefix cache. Writing to it is not counted."""

    cached_tokens: int = 0
    cache_write_tokens: int = 0


class OutputTokensDetails(msgspec.Struct, frozen=True, kw_only=True):
    """So many of the output's tokens were reasoning."""

    reasoning_tokens: int = 0


class ResponseUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Token counts of one request."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class IncompleteDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Why the answer ends where it does."""

    reason: Literal["max_output_tokens", "content_filter"]


class ResponseError(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong."""

    code: str
    message: str


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """The whole response; what was asked for is said again. `created_at` is in Unix seconds."""

    id: str
    created_at: int
    model: str
    status: ResponseStatus
    output: list[OutputItem]
    error: ResponseError | None = None
    incomplete_details: IncompleteDetails | None = None
    usage: ResponseUsage | None = None
    instructions: str | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_logprobs: int = 0
    text: dict[str, Any]
    tools: list[FunctionTool]
    tool_choice: str | FunctionChoice
    parallel_tool_calls: bool
    reasoning: dict[str, Any]
    metadata: dict[str, str]
    service_tier: str | UnsetType = UNSET
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    previous_response_id: None = None
    background: bool = False
    store: bool = False
    truncation: Literal["disabled"] = "disabled"
    object: Literal["response"] = "response"
