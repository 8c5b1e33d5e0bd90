"""Answers whose usage is booked under the request's id, and the route that tells it."""

import math
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any

from litestar import Request, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from litestar.types import ASGIApp, Receive, Scope, Send

from forebay.core.errors import InvalidRequest, ResourceNotFound, RouteNotFound
from forebay.replica.auth import Guard
from forebay.replica.request_usage import RequestUsage
from forebay.replica.service import ReplicaService
from forebay.replica.usage_book import UsageBook
from forebay.web.request_id import HEADER, request_id
from forebay.web.responses import json_response

MAX_WAIT_S = 30.0
_SUFFIX = "/usage"

AnyRequest = Request[Any, Any, Any]


async def booked(
    book: UsageBook, request: AnyRequest, answer: Callable[[AnyRequest, RequestUsage], Awaitable[ASGIApp]]
) -> ASGIApp:
    """The response that `answer` makes to `request`; the usage is closed when all of it was sent, or cannot be."""
    usage = book.open(request_id(request.scope))
    with ExitStack() as until_sent:
        until_sent.enter_context(usage.answering())
        response = await answer(request, usage)
        return _Booked(response, until_sent.pop_all())


class _Booked:
    def __init__(self, response: ASGIApp, until_sent: ExitStack) -> None:
        self._response = response
        self._until_sent = until_sent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._until_sent:
            await self._response(scope, receive, send)


def usage_route(service: ReplicaService, guards: list[Guard]) -> HTTPRouteHandler:
    """`GET /v1/requests/{id}/usage`."""

    # An id may have a slash.
    @get("/v1/requests/{rest:path}", guards=guards)
    async def usage(request: AnyRequest, rest: FromPath[str]) -> ASGIApp:
        asked = rest.removeprefix("/")
        if not asked.endswith(_SUFFIX):
            raise RouteNotFound("There is nothing here but /v1/requests/{id}/usage.")
        wait_s = _wait_s(request)
        id_ = asked.removesuffix(_SUFFIX)
        found = await service.usage_book.ended(id_, wait_s)
        if found is None:
            raise ResourceNotFound(
                f"No request with the id {id_[:200]!r} runs here, or has within the last hour; its id is what it was "
                f"sent with, or was answered with, as {HEADER}.",
                param="id",
            )
        return json_response(found.so_far)

    return usage


def _wait_s(request: AnyRequest) -> float:
    given = request.query_params.get("wait_s", "0")
    try:
        wait_s = float(given)
    except ValueError:
        wait_s = math.nan
    if not 0 <= wait_s <= MAX_WAIT_S:
        raise InvalidRequest(f"wait_s: must be a number of seconds from 0 to {MAX_WAIT_S:g}.", param="wait_s")
    return wait_s
