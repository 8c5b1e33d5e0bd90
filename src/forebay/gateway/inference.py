"""The four inference routes, which all take one straight line."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from litestar import Request, post
from litestar.handlers import HTTPRouteHandler
from litestar.response.base import ASGIResponse

from forebay.api.decoding import decode
from forebay.api.generation import ModelName
from forebay.core.errors import ForebayError
from forebay.fleet.pool import Pool
from forebay.gateway.caller import caller
from forebay.gateway.entrances import ENTRANCES, Entrance
from forebay.gateway.parts import GatewayParts
from forebay.gateway.translation import Translation
from forebay.serving.request import InferenceRequest
from forebay.tenancy.authenticator import PRIORITY_HEADER, priority_of
from forebay.web.body import read_body, require_json
from forebay.web.disconnect import until_disconnect
from forebay.web.event_stream import EventStream
from forebay.web.problems import internal_error
from forebay.web.request_id import request_id

POOL_HEADER = "X-Forebay-Pool"

AnyRequest = Request[Any, Any, Any]


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """What the gateway itself must know of a request for any model; the rest is its replica's to judge."""

    model: ModelName
    stream: bool | None = None
    service_tier: Any = None


@dataclass(frozen=True, slots=True)
class Visit:
    """One request on its way: what is asked of which pool, and how it is translated."""

    entrance: Entrance
    asked: InferenceRequest
    pool: Pool
    translation: Translation
    headers: Mapping[str, str]


def inference_routes(parts: GatewayParts) -> list[HTTPRouteHandler]:
    """The four handlers."""
    return [_handler(parts, entrance) for entrance in ENTRANCES]


def _handler(parts: GatewayParts, entrance: Entrance) -> HTTPRouteHandler:
    @post(f"/v1/{entrance.name}", status_code=200, exception_handlers=dict(entrance.exception_handlers))
    async def handler(request: AnyRequest) -> ASGIResponse:
        with parts.metrics.refusals(entrance.name):
            visit = await _admit(parts, request, entrance)
        headers = {POOL_HEADER: visit.pool.name, **visit.headers}
        if entrance.request_id_header:
            headers[entrance.request_id_header] = request_id(request.scope)
        if visit.asked.stream:
            return EventStream(_events(parts, request, visit), headers=headers)
        body = await until_disconnect(request.receive, _whole(parts, visit))
        return ASGIResponse(body=body, media_type="application/json", headers=headers)

    return handler


async def _admit(parts: GatewayParts, request: AnyRequest, entrance: Entrance) -> Visit:
    """Who asks for what, and the pool that can answer. Raises the error that refuses it."""
    parts.door.require_open()
    # The key first: a stranger's body is not read.
    principal = caller(parts.authenticator, request, entrance.key_header)
    require_json(request)
    body = await read_body(request, parts.body_limits)
    envelope = decode(body, Envelope)
    tier = envelope.service_tier if isinstance(envelope.service_tier, str) else None
    priority = priority_of(principal, request.headers.get(PRIORITY_HEADER), tier)
    pool = parts.service.pool_of(envelope.model)
    translation, headers = entrance.translate(body, pool)
    asked = InferenceRequest(
        route=entrance.upstream,
        alias=envelope.model,
        stream=bool(envelope.stream),
        body=translation.body,
        principal=principal,
        priority=priority,
    )
    return Visit(entrance, asked, pool, translation, headers)


async def _whole(parts: GatewayParts, visit: Visit) -> bytes:
    with parts.metrics.serving(visit.pool.name, visit.entrance.name), parts.door.enter():
        try:
            async with parts.service.serve(visit.asked, visit.pool) as answer:
                return visit.translation.whole(await answer.whole())
        except ForebayError as error:
            told = visit.translation.error(error)
            if told is error:
                raise
            raise told from error


async def _events(parts: GatewayParts, request: AnyRequest, visit: Visit) -> AsyncGenerator[bytes, None]:
    """What goes wrong before the first event is raised, what goes wrong later is told in the stream."""
    stream = visit.translation.stream()
    try:
        with parts.metrics.serving(visit.pool.name, visit.entrance.name) as timer, parts.door.enter():
            async with parts.service.serve(visit.asked, visit.pool) as answer:
                async for chunk in answer.events():
                    timer.chunk()
                    if told := stream.feed(chunk):
                        yield told
    except Exception as error:
        told = visit.translation.error(error) if isinstance(error, ForebayError) else error
        if stream.begun:
            yield stream.failed(told if isinstance(told, ForebayError) else internal_error(told, request.scope))
        elif told is error:
            raise
        else:
            raise told from error
