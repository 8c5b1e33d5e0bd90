"""`POST /v1/chat/completions` and `POST /v1/completions`."""

from collections.abc import AsyncGenerator
from typing import Any

import msgspec
from litestar import Request, post
from litestar.handlers import HTTPRouteHandler
from litestar.response.base import ASGIResponse

from forebay.api.chat import ChatCompletionRequest
from forebay.api.completions import CompletionRequest
from forebay.api.decoding import decode
from forebay.api.generation import GenerationFields, ModelName
from forebay.fleet.pool import Pool
from forebay.gateway.parts import GatewayParts
from forebay.serving.request import InferenceRequest, Route
from forebay.tenancy.authenticator import PRIORITY_HEADER, priority_of
from forebay.web.body import read_body, require_json
from forebay.web.disconnect import until_disconnect
from forebay.web.event_stream import EventStream

POOL_HEADER = "X-Forebay-Pool"

WIRE_TYPES: dict[Route, type[GenerationFields]] = {
    "chat/completions": ChatCompletionRequest,
    "completions": CompletionRequest,
}


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """What the gateway itself must know of a request for any model; the rest is its replica's to judge."""

    model: ModelName
    stream: bool | None = None


def inference_routes(parts: GatewayParts) -> list[HTTPRouteHandler]:
    """The two handlers."""

    @post("/v1/chat/completions", status_code=200)
    async def chat_completions(request: Request[Any, Any, Any]) -> ASGIResponse:
        return await _serve(parts, request, "chat/completions")

    @post("/v1/completions", status_code=200)
    async def completions(request: Request[Any, Any, Any]) -> ASGIResponse:
        return await _serve(parts, request, "completions")

    return [chat_completions, completions]


async def _serve(parts: GatewayParts, request: Request[Any, Any, Any], route: Route) -> ASGIResponse:
    with parts.metrics.refusals(route):
        asked, pool = await _admit(parts, request, route)
    headers = {POOL_HEADER: pool.name}
    if asked.stream:
        return EventStream(_events(parts, asked, pool), headers=headers)
    body = await until_disconnect(request.receive, _whole(parts, asked, pool))
    return ASGIResponse(body=body, media_type="application/json", headers=headers)


async def _admit(parts: GatewayParts, request: Request[Any, Any, Any], route: Route) -> tuple[InferenceRequest, Pool]:
    """Who asks for what, and the pool that can answer. Raises the error that refuses it."""
    parts.door.require_open()
    # The key first: a stranger's body is not read.
    principal = parts.authenticator.authenticate(request.headers.get("authorization"))
    priority = priority_of(principal, request.headers.get(PRIORITY_HEADER))
    require_json(request)
    body = await read_body(request, parts.body_limits)
    envelope = decode(body, Envelope)
    pool = parts.service.pool_of(envelope.model)
    if pool.exact_fields:
        decode(body, WIRE_TYPES[route])
    asked = InferenceRequest(
        route=route,
        alias=envelope.model,
        stream=bool(envelope.stream),
        body=body,
        principal=principal,
        priority=priority,
    )
    return asked, pool


async def _whole(parts: GatewayParts, asked: InferenceRequest, pool: Pool) -> bytes:
    with parts.metrics.serving(pool.name, asked.route), parts.door.enter():
        async with parts.service.serve(asked, pool) as answer:
            return await answer.whole()


async def _events(parts: GatewayParts, asked: InferenceRequest, pool: Pool) -> AsyncGenerator[bytes, None]:
    with parts.metrics.serving(pool.name, asked.route) as timer, parts.door.enter():
        async with parts.service.serve(asked, pool) as answer:
            async for chunk in answer.events():
                timer.chunk()
                yield chunk
