"""`POST /v1/chat/completions`: what goes in and what comes out."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from forebay.api.decoding import FieldError
from forebay.api.generation import (
    AnyCount,
    GenerationFields,
    NumLogprobs,
    ServiceTier,
    Usage,
    refuse_unsupported,
)
from forebay.api.logprobs import ChatLogprobs
from forebay.api.tools import ToolCall, ToolCallDelta, ToolChoice, Tools, check_tool_choice

Role = Literal["system", "developer", "user", "assistant", "tool"]
FinishReason = Literal["stop", "length", "tool_calls"]
ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]

CHAT_REFUSED: Mapping[str, tuple[object, ...]] = {
    "functions": ([],),
    "function_call": ("none",),
    "modalities": (["text"],),
    "audio": (),
    "web_search_options": (),
    "chat_template": (),
    "documents": ([],),
    "echo": (False,),
}
"""As `generation.REFUSED`, for the fields that only chat has."""


class TextPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a message. Only `text` parts are run; an assistant's `refusal` is text, too."""

    type: str
    text: str | None = None
    refusal: str | None = None

    def __post_init__(self) -> None:
        if self.type not in ("text", "refusal"):
            raise FieldError("type", f"unsupported content part {self.type!r}; only parts of type 'text' are taken.")
        if (self.text if self.type == "text" else self.refusal) is None:
            raise FieldError(self.type, "this field is required.")

    @property
    def said(self) -> str:
        """Its text."""
        return (self.text if self.type == "text" else self.refusal) or ""


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One turn. Only an assistant's may be without content; `reasoning_content` is what it thought before it spoke."""

    role: Role
    content: str | Annotated[list[TextPart], msgspec.Meta(min_length=1)] | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None

    def __post_init__(self) -> None:
        if self.content is None and self.role != "assistant":
            raise FieldError("content", f"this field is required in a {self.role} message.")
        if isinstance(self.content, list) and self.role != "assistant":
            for index, part in enumerate(self.content):
                if part.type == "refusal":
                    raise FieldError(f"content[{index}].type", "only an assistant's message has a 'refusal'.")

    @property
    def text(self) -> str:
        """The content as one text; parts are joined by line ends."""
        if self.content is None:
            return ""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.said for part in self.content)

    def for_template(self) -> dict[str, Any]:
        """As chat templates know it: content is text, and `developer` is called by its older name."""
        message: dict[str, Any] = {
            "role": "system" if self.role == "developer" else self.role,
            "content": self.text,
        }
        if self.name is not None:
            message["name"] = self.name
        if self.tool_call_id is not None:
            message["tool_call_id"] = self.tool_call_id
        if self.tool_calls:
            message["tool_calls"] = [msgspec.to_builtins(call) for call in self.tool_calls]
        return message


Messages = Annotated[list[ChatMessage], msgspec.Meta(min_length=1)]


def check_continuing(messages: list[ChatMessage], add_generation_prompt: bool | None) -> None:
    """Raise FieldError where the last message cannot be gone on with."""
    if add_generation_prompt:
        raise FieldError("continue_final_message", "not together with `add_generation_prompt: true`.")
    if messages[-1].tool_calls:
        raise FieldError("continue_final_message", "the last message calls tools; send one that is text alone.")


class ChatCompletionRequest(GenerationFields, frozen=True, kw_only=True, omit_defaults=True):
    """The request. `max_completion_tokens` is the newer name of `max_tokens` and wins over it.

    `reasoning_effort` and `chat_template_kwargs` are given to the chat template.
    """

    messages: Messages
    max_completion_tokens: AnyCount | None = None
    logprobs: bool | None = None
    top_logprobs: NumLogprobs | None = None
    tools: Tools | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: ReasoningEffort | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    add_special_tokens: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None

    functions: list[Any] | None = None
    function_call: Any = None
    modalities: list[str] | None = None
    audio: Any = None
    web_search_options: Any = None
    chat_template: str | None = None
    documents: list[Any] | None = None
    echo: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_unsupported(self, CHAT_REFUSED)
        check_tool_choice(self.tools, self.tool_choice)
        if self.top_logprobs and not self.logprobs:
            raise FieldError("top_logprobs", "allowed only together with `logprobs: true`.")
        for name in ("max_tokens", "max_completion_tokens"):
            if getattr(self, name) == 0:
                raise FieldError(name, "must be 1 or more.")
        if self.continue_final_message:
            check_continuing(self.messages, self.add_generation_prompt)

    @property
    def output_limit(self) -> int | None:
        """Most tokens to generate; None is what the context leaves."""
        return self.max_completion_tokens or self.max_tokens


class AssistantMessage(msgspec.Struct, frozen=True, kw_only=True):
    """What the model said; `content` is None where it only called tools."""

    content: str | None
    role: Literal["assistant"] = "assistant"
    refusal: str | None = None
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[ToolCall] | UnsetType = UNSET


class ChatChoice(msgspec.Struct, frozen=True, kw_only=True):
    """One answer. `stop_reason` is vLLM's: the stop text or stop token that ended it."""

    message: AssistantMessage
    finish_reason: FinishReason
    index: int = 0
    logprobs: ChatLogprobs | None = None
    stop_reason: int | str | None = None


class ChatCompletion(msgspec.Struct, frozen=True, kw_only=True):
    """The whole response. `created` is in Unix seconds."""

    id: str
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage
    service_tier: ServiceTier | UnsetType = UNSET
    prompt_logprobs: list[dict[str, Any] | None] | UnsetType = UNSET
    object: Literal["chat.completion"] = "chat.completion"


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """What a chunk adds to the message."""

    role: Literal["assistant"] | UnsetType = UNSET
    content: str | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[ToolCallDelta] | UnsetType = UNSET


class ChunkChoice(msgspec.Struct, frozen=True, kw_only=True):
    """One answer's part of a chunk."""

    delta: Delta
    finish_reason: FinishReason | None = None
    index: int = 0
    logprobs: ChatLogprobs | None = None
    stop_reason: int | str | UnsetType | None = UNSET


class ChatCompletionChunk(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a stream. `usage` is sent only where the request asked for it: null, but in the last chunk."""

    id: str
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: Usage | UnsetType | None = UNSET
    service_tier: ServiceTier | UnsetType = UNSET
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
