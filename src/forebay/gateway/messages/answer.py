"""A chat completion as the answer of `/v1/messages`."""

from collections.abc import Sequence
from typing import Any

import msgspec

from forebay.api.messages import MessagesRequest
from forebay.api.messages_answer import (
    ContentBlock,
    MessageAnswer,
    MessagesUsage,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from forebay.gateway.answer_parts import Part, parts_of
from forebay.gateway.chat_answer import ChatAnswer, ChatUsage, Choice

INVALID_JSON = "INVALID_JSON"
"""Anthropic's name for what a model wrote in the place of a tool's input and that is no JSON object, such as one that
was cut off."""


class Stop:
    """Why an answer ended, as far as its chunks have told."""

    def __init__(self, stop_sequences: Sequence[str]) -> None:
        self._stop_sequences = stop_sequences
        self._finish_reason: str | None = None
        self._sequence: str | None = None

    def note(self, choice: Choice) -> None:
        self._finish_reason = choice.finish_reason or self._finish_reason
        if isinstance(choice.stop_reason, str) and choice.stop_reason in self._stop_sequences:
            self._sequence = choice.stop_reason

    def told(self, parts: Sequence[Part]) -> tuple[StopReason, str | None]:
        """`stop_reason` and `stop_sequence` of the answer that has these parts."""
        reason = self._reason([part for part in parts if part.kind == "call"])
        return reason, self._sequence if reason == "stop_sequence" else None

    def _reason(self, calls: Sequence[Part]) -> StopReason:
        """Some servers tell of a forced call as of a plain end; a call that is whole says that there was one."""
        match self._finish_reason:
            case "length":
                return "max_tokens"
            case "content_filter":
                return "refusal"
            case reason:
                told_as_calls = bool(calls) and reason == "tool_calls"
        if self._sequence is not None:
            return "tool_use" if told_as_calls and not calls[-1].cut else "stop_sequence"
        return "tool_use" if told_as_calls or (calls and not calls[-1].cut) else "end_turn"


class MessageBuilder:
    """Builds the answer to one request. `key` is what its ids are made of."""

    def __init__(self, asked: MessagesRequest, *, key: str) -> None:
        self._id = f"msg_{key}"
        self._model = asked.model
        self._stop_sequences = tuple(asked.stop_sequences or ())
        self.call_prefix = f"toolu_{key}"

    def stop(self) -> Stop:
        return Stop(self._stop_sequences)

    def begun(self) -> MessageAnswer:
        """What a stream begins with."""
        return MessageAnswer(id=self._id, model=self._model, content=[], usage=MessagesUsage())

    def whole(self, answer: ChatAnswer) -> MessageAnswer:
        """The answer of a chat completion that has a first choice."""
        choice = answer.first
        assert choice is not None, "a whole answer was read with its choice"
        parts = parts_of(choice, self.call_prefix)
        stop = self.stop()
        stop.note(choice)
        reason, sequence = stop.told(parts)
        return msgspec.structs.replace(
            self.begun(),
            content=[block(part) for part in parts],
            usage=usage(answer.usage),
            stop_reason=reason,
            stop_sequence=sequence,
        )


def block(part: Part) -> ContentBlock:
    """A whole part as a content block."""
    match part.kind:
        case "reasoning":
            return ThinkingBlock(thinking=part.text)
        case "text" | "refusal":
            return TextBlock(text=part.text)
        case "call":
            return ToolUseBlock(id=part.call_id, name=part.name, input=_tool_input(part.text))


def usage(counted: ChatUsage | None) -> MessagesUsage:
    """Nothing is counted where the pool did not tell."""
    if counted is None:
        return MessagesUsage()
    return MessagesUsage(
        input_tokens=max(0, counted.input_tokens - counted.cached_tokens),
        output_tokens=counted.output_tokens,
        cache_read_input_tokens=counted.cached_tokens,
    )


def _tool_input(arguments: str) -> dict[str, Any]:
    if not arguments.strip():
        return {}
    try:
        return msgspec.json.decode(arguments, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return {INVALID_JSON: arguments}
