"""A chat completion's stream as that of `/v1/messages`."""

from collections.abc import Iterator
from typing import Any

import msgspec

from forebay.api import sse
from forebay.core.errors import ForebayError
from forebay.gateway.answer_parts import AnswerParts, Begun, Ended, Grown, Part, Step
from forebay.gateway.chat_answer import ChatUsage, read_chunk
from forebay.gateway.event_buffer import EventBuffer
from forebay.gateway.messages.answer import MessageBuilder, block, usage
from forebay.gateway.messages.errors import error_object


class MessageStream:
    """One stream. Its first chunk brings the first event, its end mark the last ones."""

    def __init__(self, builder: MessageBuilder) -> None:
        self._builder = builder
        self._parts = AnswerParts(builder.call_prefix)
        self._stop = builder.stop()
        self._events = EventBuffer(self._on)
        self._usage: ChatUsage | None = None

    @property
    def begun(self) -> bool:
        return self._events.begun

    def feed(self, chunk: bytes) -> bytes:
        """The events for `chunk`. Raises the error that it tells of."""
        return self._events.feed(chunk)

    def failed(self, error: ForebayError) -> bytes:
        return self._events.rest() + _event("error", error=error_object(error))

    def _on(self, event: sse.SseEvent) -> Iterator[bytes]:
        if event.is_done:
            yield from self._end()
            return
        chunk = read_chunk(event)
        if not self.begun:
            yield _event("message_start", message=self._builder.begun())
        self._usage = chunk.usage or self._usage
        if choice := chunk.first:
            self._stop.note(choice)
            for step in self._parts.add(choice):
                yield from self._step(step)

    def _end(self) -> Iterator[bytes]:
        for step in self._parts.end():
            yield from self._step(step)
        reason, sequence = self._stop.told(self._parts.parts)
        delta = {"stop_reason": reason, "stop_sequence": sequence}
        yield _event("message_delta", delta=delta, usage=usage(self._usage))
        yield _event("message_stop")

    def _step(self, step: Step) -> Iterator[bytes]:
        match step:
            case Begun(part):
                # Still empty, so that all of it comes in deltas.
                yield _event("content_block_start", index=part.position, content_block=block(part))
            case Grown(part, text):
                if text:
                    yield _event("content_block_delta", index=part.position, delta=_delta(part, text))
            case Ended(part):
                yield _event("content_block_stop", index=part.position)


def _delta(part: Part, text: str) -> dict[str, str]:
    match part.kind:
        case "reasoning":
            return {"type": "thinking_delta", "thinking": text}
        case "text" | "refusal":
            return {"type": "text_delta", "text": text}
        case "call":
            return {"type": "input_json_delta", "partial_json": text}


def _event(type_: str, **fields: Any) -> bytes:
    return sse.event(msgspec.json.encode({"type": type_, **fields}), type_)
