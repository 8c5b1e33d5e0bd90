"""`POST /v1/completions`."""

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
from forebay.api.completions import Completion, CompletionChoice, CompletionRequest
from forebay.api.generation import Usage
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


def completion_route(service: ReplicaService, guards: list[Guard]) -> HTTPRouteHandler:
    """The route."""

    @post("/v1/completions", guards=guards)
    async def completions(request: Request[Any, Any, Any]) -> ASGIApp:
        arrived = service.clock.now()
        asked = await read_json(request, CompletionRequest, service.settings.body_limits)
        service.require_model(asked.model)
        public = public_prefix_tokens(request.headers, service.settings)
        prompt = await _prompt_tokens(service, asked.single_prompt)
        answer = _CompletionAnswer(new_id("cmpl"), service.model_name, include_usage=asked.include_usage)
        updates = service.generate(generation_request(answer.id, asked, prompt, asked.output_limit, public), arrived)
        if asked.stream:
            return EventStream(answer.events(updates))
        return json_response(await until_disconnect(request.receive, answer.whole(updates)))

    return completions


async def _prompt_tokens(service: ReplicaService, prompt: str | list[int]) -> list[int]:
    if isinstance(prompt, str):
        return await service.prompts.of_text(prompt)
    return service.prompts.of_token_ids(prompt, "prompt")


class _CompletionAnswer:
    """One answer on its way out."""

    def __init__(self, id_: str, model: str, *, include_usage: bool) -> None:
        self.id = id_
        self._model = model
        self._created = int(time.time())
        self._usage_so_far = None if include_usage else UNSET

    async def whole(self, updates: Updates) -> Completion:
        text, last, reason = await collect(updates)
        return self._completion([CompletionChoice(text=text, finish_reason=reason)], usage_of(last))

    async def events(self, updates: Updates) -> AsyncGenerator[bytes, None]:
        last: GenerationUpdate | None = None
        async with aclosing(updates):
            async for update in updates:
                last = update
                if update.text or update.finish_reason is not None:
                    choice = CompletionChoice(text=update.text, finish_reason=update.finish_reason)
                    yield self._event([choice], self._usage_so_far)
        ending = b""
        if last is not None and self._usage_so_far is None:
            ending = self._event([], usage_of(last))
        yield ending + sse.DONE

    def _event(self, choices: list[CompletionChoice], usage: Usage | msgspec.UnsetType | None) -> bytes:
        return sse.event(msgspec.json.encode(self._completion(choices, usage)))

    def _completion(self, choices: list[CompletionChoice], usage: Usage | msgspec.UnsetType | None) -> Completion:
        return Completion(id=self.id, created=self._created, model=self._model, choices=choices, usage=usage)
