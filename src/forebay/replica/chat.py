"""`POST /v1/chat/completions`."""

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec
from litestar import Request, post
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp
from msgspec import UNSET

from forebay.api import sse
from forebay.api.chat import (
    AssistantMessage,
    ChatChoice,
    ChatCompletion,
    ChatCompletionChunk,
    ChatCompletionRequest,
    ChunkChoice,
    Delta,
)
from forebay.api.generation import FinishReason, Usage
from forebay.core.ids import new_id
from forebay.engine.request import GenerationUpdate
from forebay.replica.answer import collect, usage_of
from forebay.replica.auth import Guard
from forebay.replica.generation import generation_request, public_prefix_tokens
from forebay.replica.service import ReplicaService
from forebay.web.body import read_json
from forebay.web.disconnect import until_disconnect
from forebay.web.event_stream import EventStream
from forebay.web.responses import json_response

Updates = AsyncGenerator[GenerationUpdate, None]


def chat_route(service: ReplicaService, guards: list[Guard]) -> HTTPRouteHandler:
    """The route."""

    @post("/v1/chat/completions", guards=guards)
    async def chat_completions(request: Request[Any, Any, Any]) -> ASGIApp:
        arrived = service.clock.now()
        asked = await read_json(request, ChatCompletionRequest, service.settings.body_limits)
        service.require_model(asked.model)
        public = public_prefix_tokens(request.headers, service.settings)
        prompt = await service.prompts.of_chat(asked.messages)
        answer = _ChatAnswer(new_id("chatcmpl"), service.model_name, include_usage=asked.include_usage)
        updates = service.generate(generation_request(answer.id, asked, prompt, asked.output_limit, public), arrived)
        if asked.stream:
            return EventStream(answer.events(updates))
        return json_response(await until_disconnect(request.receive, answer.whole(updates)))

    return chat_completions


class _ChatAnswer:
    """One answer on its way out."""

    def __init__(self, id_: str, model: str, *, include_usage: bool) -> None:
        self.id = id_
        self._model = model
        self._created = int(time.time())
        self._usage_so_far = None if include_usage else UNSET

    async def whole(self, updates: Updates) -> ChatCompletion:
        text, last, reason = await collect(updates)
        choice = ChatChoice(message=AssistantMessage(content=text), finish_reason=reason)
        return ChatCompletion(
            id=self.id, created=self._created, model=self._model, choices=[choice], usage=usage_of(last)
        )

    async def events(self, updates: Updates) -> AsyncGenerator[bytes, None]:
        last: GenerationUpdate | None = None
        async with aclosing(updates):
            async for update in updates:
                event = b"" if last else self._chunk(Delta(role="assistant", content=""))
                last = update
                if update.text:
                    event += self._chunk(Delta(content=update.text))
                if update.finish_reason is not None:
                    event += self._chunk(Delta(), update.finish_reason)
                if event:
                    yield event
        ending = b""
        if last is not None and self._usage_so_far is None:
            ending = self._event([], usage_of(last))
        yield ending + sse.DONE

    def _chunk(self, delta: Delta, finish_reason: FinishReason | None = None) -> bytes:
        return self._event([ChunkChoice(delta=delta, finish_reason=finish_reason)], self._usage_so_far)

    def _event(self, choices: list[ChunkChoice], usage: Usage | msgspec.UnsetType | None) -> bytes:
        chunk = ChatCompletionChunk(id=self.id, created=self._created, model=self._model, choices=choices, usage=usage)
        return sse.event(msgspec.json.encode(chunk))
