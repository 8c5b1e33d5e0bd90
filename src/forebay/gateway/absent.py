"""Paths that OpenAI's and Anthropic's clients know and that are not offered: whoever asks is told so."""

from collections.abc import Mapping
from typing import Any

from litestar import HttpMethod, Request, Response, route
from litestar.handlers import HTTPRouteHandler

from forebay.core.errors import RouteNotFound
from forebay.gateway.messages.problems import ExceptionHandlers, anthropic_exception_handlers

_METHODS = [HttpMethod.GET, HttpMethod.POST, HttpMethod.DELETE]
_NOT_STORED = "answers are not stored here, so that each comes once, from POST /v1/responses"
_ABOUT: Mapping[str, str] = {
    "responses": _NOT_STORED,
    "responses/input_tokens": "tokens are not counted beforehand; the answer of POST /v1/responses tells its `usage`",
    "responses/compact": "conversations are not shortened here; send to POST /v1/responses what fits",
    "messages": "of Anthropic's API there are POST /v1/messages and GET /v1/models",
    "messages/count_tokens": "tokens are not counted beforehand; the answer of POST /v1/messages tells its `usage`",
    "messages/batches": "batches are not offered; send each to POST /v1/messages",
}
"""Path below `/v1` → what to say of it and of all below it; the longest counts."""


def absent_routes() -> list[HTTPRouteHandler]:
    """Handlers for whatever else is below the two."""
    return [_handler("responses", {}), _handler("messages", anthropic_exception_handlers())]


def _handler(root: str, exception_handlers: ExceptionHandlers) -> HTTPRouteHandler:
    @route(f"/v1/{root}/{{rest:path}}", http_method=_METHODS, exception_handlers=dict(exception_handlers))
    async def absent(request: Request[Any, Any, Any]) -> Response[bytes]:
        path = str(request.scope["path"])
        below = path.removeprefix("/v1/")
        about = max((known for known in _ABOUT if f"{below}/".startswith(f"{known}/")), key=len)
        raise RouteNotFound(f"There is no {path} here: {_ABOUT[about]}.")

    return absent
