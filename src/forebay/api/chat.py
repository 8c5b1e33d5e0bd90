"""`POST /v1/chat/completions`: what goes in and what comes out."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from forebay.api.decoding import FieldError
from forebay.api.generation import FinishReason, GenerationFields, TokenCount, Usage, refuse_unsupported

Role = Literal["system", "developer", "user", "assistant", "tool"]

CHAT_HARMLESS: Mapping[str, tuple[object, ...]] = {
    "tools": ([],),
    "tool_choice": ("none",),
    "functions": ([],),
    "function_call": ("none",),
    "response_format": ({"type": "text"},),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "modalities": (["text"],),
    "audio": (),
    "web_search_options": (),
    "reasoning_effort": ("none",),
    "verbosity": ("medium",),
    "add_generation_prompt": (True,),
    "continue_final_message": (False,),
    "add_special_tokens": (False,),
    "chat_template": (),
    "chat_template_kwargs": ({},),
    "documents": ([],),
    "echo": (False,),
}
"""As `generation.HARMLESS`, for the fields that only chat has."""


class TextPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a message. Only `text` parts are run."""

    type: str
    text: str | None = None

    def __post_init__(self) -> None:
        if self.type != "text":
            raise FieldError("type", f"unsupported content part {self.type!r}; only 'text' parts are run.")
        if self.text is None:
            raise FieldError("text", "this field is required.")


class FunctionCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that the model made: `arguments` is JSON text."""

    name: str
    arguments: str


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call of an earlier assistant message."""

    id: str
    function: FunctionCall
    type: Literal["function"] = "function"


class ChatMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One turn. Only an assistant's may be without content."""

    role: Role
    content: str | Annotated[list[TextPart], msgspec.Meta(min_length=1)] | None = None
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None

    def __post_init__(self) -> None:
        if self.content is None and self.role != "assistant":
            raise FieldError("content", f"this field is required in a {self.role} message.")

    @property
    def text(self) -> str:
        """The content as one text; parts are joined by line ends."""
        if self.content is None:
            return ""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text or "" for part in self.content)

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


class ChatCompletionRequest(GenerationFields, frozen=True, kw_only=True, omit_defaults=True):
    """The request. `max_completion_tokens` is the newer name of `max_tokens` and wins over it."""

    messages: Messages
    max_completion_tokens: TokenCount | None = None

    tools: list[Any] | None = None
    tool_choice: Any = None
    functions: list[Any] | None = None
    function_call: Any = None
    response_format: Any = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    modalities: list[str] | None = None
    audio: Any = None
    web_search_options: Any = None
    reasoning_effort: str | None = None
    verbosity: str | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    add_special_tokens: bool | None = None
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    documents: list[Any] | None = None
    echo: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_unsupported(self, CHAT_HARMLESS)

    @property
    def output_limit(self) -> int | None:
        """Most tokens to generate; None is what the context leaves."""
        return self.max_completion_tokens or self.max_tokens


class AssistantMessage(msgspec.Struct, frozen=True, kw_only=True):
    """What the model said."""

    content: str | None
    role: Literal["assistant"] = "assistant"
    refusal: str | None = None


class ChatChoice(msgspec.Struct, frozen=True, kw_only=True):
    """One answer."""

    message: AssistantMessage
    finish_reason: FinishReason
    index: int = 0
    logprobs: None = None


class ChatCompletion(msgspec.Struct, frozen=True, kw_only=True):
    """The whole response. `created` is in Unix seconds."""

    id: str
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage
    object: Literal["chat.completion"] = "chat.completion"


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """What a chunk adds to the message."""

    role: Literal["assistant"] | UnsetType = UNSET
    content: str | UnsetType = UNSET


class ChunkChoice(msgspec.Struct, frozen=True, kw_only=True):
    """One answer's part of a chunk."""

    delta: Delta
    finish_reason: FinishReason | None = None
    index: int = 0
    logprobs: None = None


class ChatCompletionChunk(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a stream. `usage` is sent only where the request asked for it: null, but in the last chunk."""

    id: str
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: Usage | UnsetType | None = UNSET
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
