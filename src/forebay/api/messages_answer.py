"""`POST /v1/messages`, which is Anthropic's: what comes out."""

from typing import Any, Literal

import msgspec

StopReason = Literal["end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"]


class TextBlock(msgspec.Struct, frozen=True, kw_only=True):
    """What the model said."""

    text: str
    type: Literal["text"] = "text"


class ThinkingBlock(msgspec.Struct, frozen=True, kw_only=True):
    """What the model thought before. It is not signed: the signature is empty."""

    thinking: str
    signature: str = ""
    type: Literal["thinking"] = "thinking"


class ToolUseBlock(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a tool."""

    id: str
    name: str
    input: dict[str, Any]
    type: Literal["tool_use"] = "tool_use"


ContentBlock = TextBlock | ThinkingBlock | ToolUseBlock


class MessagesUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Token counts. `input_tokens` are those that were not found in the prefix cache; writing to it is not counted."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0


class MessageAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer, or what a stream begins with."""

    id: str
    model: str
    content: list[ContentBlock]
    usage: MessagesUsage
    stop_reason: StopReason | None = None
    stop_sequence: str | None = None
    role: Literal["assistant"] = "assistant"
    type: Literal["message"] = "message"
