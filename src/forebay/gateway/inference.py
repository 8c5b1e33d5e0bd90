"""The four inference routes, which all take one straight line."""

import secrets
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import msgspec
from litestar import Request, post
from litestar.handlers import HTTPRouteHandler
from litestar.response.base import ASGIResponse

from forebay.api.decoding import decode
from forebay.api.generation import ModelName
from forebay.core.errors import ForebayError, InvalidRequest
from forebay.core.ids import new_id
from forebay.fleet.pool import Pool
from forebay.gateway.caller import caller
from forebay.gateway.entrances import ENTRANCES, Entrance
from forebay.gateway.parts import GatewayParts
from forebay.gateway.translation import Translation
from forebay.serving.repeats import IDEMPOTENCY_HEADER
from forebay.serving.request import InferenceRequest, Repeat
from forebay.tenancy.authenticator import PRIORITY_HEADER, priority_of, require_scope
from forebay.tenancy.principal import Principal
from forebay.web.body import read_body, require_json
from forebay.web.disconnect import until_disconnect
from forebay.web.event_stream import EventStream
from forebay.web.problems import internal_error
from forebay.web.request_id import request_id

POOL_HEADER = "X-Forebay-Pool"
MAX_IDEMPOTENCY_KEY = 255

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
    headers: dict[str, str]
    """Of the response; how the caller stands with its quotas is added once that is known."""


def inference_routes(parts: GatewayParts) -> list[HTTPRouteHandler]:
    """The four handlers."""
    return [_handler(parts, entrance) for entrance in ENTRANCES]


def _handler(parts: GatewayParts, entrance: Entrance) -> HTTPRouteHandler:
    @post(f"/v1/{entrance.name}", status_code=200, exception_handlers=dict(entrance.exception_handlers))
    async def handler(request: AnyRequest) -> ASGIResponse:
        with parts.metrics.refusals(entrance.name):
            visit = await _admit(parts, request, entrance)
        if visit.asked.stream:
            return EventStream(_events(parts, request, visit), headers=lambda: visit.headers)
        body = await until_disconnect(request.receive, _whole(parts, visit))
        return ASGIResponse(body=body, media_type="application/json", headers=visit.headers)

    return handler


async def _admit(parts: GatewayParts, request: AnyRequest, entrance: Entrance) -> Visit:
    """Who asks for what, and the pool that can answer. Raises the error that refuses it."""
    arrived = parts.clock.now()
    parts.door.require_open()
    # The key first: a stranger's body is not read.
    principal = caller(parts.authenticator, request, entrance.key_header)
    require_scope(principal, "inference")
    require_json(request)
    body = await read_body(request, parts.body_limits)
    envelope = decode(body, Envelope)
    tier = envelope.service_tier if isinstance(envelope.service_tier, str) else None
    priority = priority_of(principal, request.headers.get(PRIORITY_HEADER), tier)
    pool = parts.pools[parts.catalog.resolve(envelope.model, principal.models).pool]
    repeat = _repeat(request, principal, entrance, body)
    translation, ignored = entrance.translate(body, pool, _answer_key(repeat))
    asked = InferenceRequest(
        id=new_id("req"),
        request_id=request_id(request.scope),
        entrance=entrance.name,
        route=entrance.upstream,
        alias=envelope.model,
        stream=bool(envelope.stream),
        body=translation.body,
        principal=principal,
        priority=priority,
        arrived=arrived,
        repeat=repeat,
    )
    headers = {POOL_HEADER: pool.name, **ignored}
    if entrance.request_id_header:
        headers[entrance.request_id_header] = asked.request_id
    return Visit(entrance, asked, pool, translation, headers)


def _repeat(request: AnyRequest, principal: Principal, entrance: Entrance, body: bytes) -> Repeat | None:
    """Raises InvalidRequest for a key that is none."""
    key = request.headers.get(IDEMPOTENCY_HEADER)
    if key is None:
        return None
    if not 1 <= len(key) <= MAX_IDEMPOTENCY_KEY:
        raise InvalidRequest(
            f"{IDEMPOTENCY_HEADER} has {len(key)} characters; send 1 to {MAX_IDEMPOTENCY_KEY}, a UUID for example.",
            param=IDEMPOTENCY_HEADER,
        )
    return Repeat.of(principal.tenant_id, key, entrance.name, body)


def _answer_key(repeat: Repeat | None) -> str:
    """What the ids of an answer are made of: a repeat's are those of the answer that it repeats."""
    return secrets.token_hex(16) if repeat is None else repeat.digest[:32]


async def _whole(parts: GatewayParts, visit: Visit) -> bytes:
    with parts.metrics.serving(visit.pool.name, visit.entrance.name), parts.door.enter():
        try:
            async with parts.service.serve(visit.asked, visit.pool) as answer:
                visit.headers.update(answer.headers)
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
                visit.headers.update(answer.headers)
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
