"""A chat completion's stream as that of `/v1/responses`."""

from collections.abc import Iterator
from typing import Any

import msgspec

from forebay.api import sse
from forebay.api.errors import openai_error
from forebay.api.responses_answer import Response
from forebay.core.errors import ForebayError
from forebay.gateway.answer_parts import AnswerParts, Begun, Ended, Grown, Part, Step
from forebay.gateway.chat_answer import ChatAnswer, read_chunk
from forebay.gateway.event_buffer import EventBuffer
from forebay.gateway.responses.answer import ResponseBuilder, content_part


class ResponseStream:
    """One stream. Its first chunk brings the first two events, its end mark the last ones."""

    def __init__(self, builder: ResponseBuilder) -> None:
        self._builder = builder
        self._parts = AnswerParts(self._builder.call_prefix)
        self._events = EventBuffer(self._on)
        self._sequence_number = 0
        self._finish_reason: str | None = None
        self._last = ChatAnswer()
        """The latest usage and tier."""

    @property
    def begun(self) -> bool:
        return self._events.begun

    def feed(self, chunk: bytes) -> bytes:
        """The events for `chunk`. Raises the error that it tells of."""
        return self._events.feed(chunk)

    def failed(self, error: ForebayError) -> bytes:
        """OpenAI's documents have the error's fields in the event itself, its clients look for them in `error`."""
        response = self._builder.failed(self._parts.parts, error)
        told = openai_error(error)
        fields = {"code": told["code"], "message": told["message"], "param": told["param"], "error": told}
        return self._events.rest() + self._lifecycle("failed", response) + self._event("error", **fields)

    def _on(self, event: sse.SseEvent) -> Iterator[bytes]:
        if event.is_done:
            yield from self._end()
            return
        chunk = read_chunk(event)
        if not self.begun:
            self._builder.born(chunk)
            yield self._lifecycle("created", self._builder.begun())
            yield self._lifecycle("in_progress", self._builder.begun())
        self._last = ChatAnswer(
            usage=chunk.usage or self._last.usage, service_tier=chunk.service_tier or self._last.service_tier
        )
        if choice := chunk.first:
            self._finish_reason = choice.finish_reason or self._finish_reason
            for step in self._parts.add(choice):
                yield from self._step(step)

    def _end(self) -> Iterator[bytes]:
        for step in self._parts.end():
            yield from self._step(step)
        response = self._builder.done(self._parts.parts, self._finish_reason, self._last)
        yield self._lifecycle(response.status, response)

    def _step(self, step: Step) -> Iterator[bytes]:
        match step:
            case Begun(part):
                item = self._builder.item(part, "in_progress")
                yield self._event("response.output_item.added", output_index=part.position, item=item)
                if part.kind != "call":
                    yield self._part_event("response.content_part.added", part, part=content_part(part, whole=False))
            case Grown(part, text, logprobs):
                yield self._delta(part, text, logprobs)
            case Ended(part):
                yield from self._ended(part)

    def _delta(self, part: Part, text: str, logprobs: list[dict[str, Any]]) -> bytes:
        match part.kind:
            case "reasoning":
                return self._part_event("response.reasoning_text.delta", part, delta=text)
            case "text":
                return self._part_event("response.output_text.delta", part, delta=text, logprobs=logprobs)
            case "refusal":
                return self._part_event("response.refusal.delta", part, delta=text)
            case "call":
                return self._item_event("response.function_call_arguments.delta", part, delta=text)

    def _ended(self, part: Part) -> Iterator[bytes]:
        match part.kind:
            case "reasoning":
                yield self._part_event("response.reasoning_text.done", part, text=part.text)
            case "text":
                yield self._part_event("response.output_text.done", part, text=part.text, logprobs=part.logprobs)
            case "refusal":
                yield self._part_event("response.refusal.done", part, refusal=part.text)
            case "call":
                yield self._item_event(
                    "response.function_call_arguments.done", part, name=part.name, arguments=part.text
                )
        if part.kind != "call":
            yield self._part_event("response.content_part.done", part, part=content_part(part, whole=True))
        item = self._builder.ended(part)
        yield self._event("response.output_item.done", output_index=part.position, item=item)

    def _lifecycle(self, what: str, response: Response) -> bytes:
        return self._event(f"response.{what}", response=response)

    def _part_event(self, type_: str, part: Part, /, **fields: Any) -> bytes:
        """Each item has a single content part."""
        return self._item_event(type_, part, content_index=0, **fields)

    def _item_event(self, type_: str, part: Part, /, **fields: Any) -> bytes:
        return self._event(type_, item_id=self._builder.item_id(part), output_index=part.position, **fields)

    def _event(self, type_: str, /, **fields: Any) -> bytes:
        data = msgspec.json.encode({"type": type_, "sequence_number": self._sequence_number, **fields})
        self._sequence_number += 1
        return sse.event(data, type_)
