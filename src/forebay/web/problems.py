"""Whatever goes wrong becomes RFC 9457 problem JSON that also carries OpenAI's `error` object."""

import traceback
from collections.abc import Callable, Iterator
from typing import Any

import structlog
from litestar import Request, Response
from litestar.exceptions import HTTPException
from litestar.types import Scope

from forebay.api.errors import PROBLEM_MEDIA_TYPE, headers, problem
from forebay.core.errors import (
    BodyTooLarge,
    ForebayError,
    InternalError,
    InvalidRequest,
    MethodNotAllowed,
    RouteNotFound,
    UnsupportedMediaType,
)
from forebay.web.disconnect import DisconnectError
from forebay.web.request_id import request_id

logger = structlog.get_logger(__name__)

CLIENT_CLOSED_REQUEST = 499
"""For the log only: nobody is left to read it."""

AnyRequest = Request[Any, Any, Any]


def exception_handlers() -> dict[int | type[Exception], Callable[[AnyRequest, Any], Response[bytes]]]:
    """Litestar's `exception_handlers`: there is an answer to every exception."""
    return {
        ForebayError: lambda request, error: problem_response(error, request.scope),
        HTTPException: _http_exception,
        DisconnectError: lambda _request, _error: Response(b"", status_code=CLIENT_CLOSED_REQUEST),
        Exception: lambda request, error: problem_response(internal_error(error, request.scope), request.scope),
    }


def problem_response(error: ForebayError, scope: Scope) -> Response[bytes]:
    """The response that tells of `error`. One that is our fault is also logged."""
    if error.status >= 500 and not isinstance(error, InternalError):
        logger.warning("request failed", request_id=request_id(scope), error=error.type, detail=error.detail)
    return Response(problem(error), status_code=error.status, headers=headers(error), media_type=PROBLEM_MEDIA_TYPE)


def internal_error(error: BaseException, scope: Scope) -> InternalError:
    """Log an exception that nobody foresaw; what is returned may be told to the client.

    The log has the exception's kind and where it was raised, not its message, which may quote the request.
    """
    id_ = request_id(scope)
    logger.error("unexpected exception", request_id=id_, path=scope["path"], raised=list(_chain(error)))
    return InternalError(f"The server failed on this request; its log has the details under request id {id_}.")


def _chain(error: BaseException | None) -> Iterator[dict[str, object]]:
    """The exception, then what it came from: kinds and places."""
    while error is not None:
        places = [
            f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)
        ]
        yield {"type": f"{type(error).__module__}.{type(error).__qualname__}", "at": places}
        error = error.__cause__ or error.__context__


def _http_exception(request: AnyRequest, error: HTTPException) -> Response[bytes]:
    """Litestar's own exceptions: no such route, no such method, …"""
    scope = request.scope
    where = f"{scope['method']} {scope['path']}"
    match error.status_code:
        case 404:
            return problem_response(
                RouteNotFound(f"There is no {scope['path']} here; GET /v1/models is a start."), scope
            )
        case 405:
            return _method_not_allowed(request, error)
        case 413:
            return problem_response(BodyTooLarge(f"{where}: the request body is too large."), scope)
        case 415:
            return problem_response(UnsupportedMediaType(f"{where}: send the body as application/json."), scope)
        case status if 400 <= status < 500:
            return problem_response(InvalidRequest(f"{where}: {error.detail}"), scope)
        case _:
            return problem_response(internal_error(error, scope), scope)


def _method_not_allowed(request: AnyRequest, error: HTTPException) -> Response[bytes]:
    allowed = {method.strip().upper() for method in (error.headers or {}).get("allow", "").split(",")} - {""}
    if "GET" in allowed:
        allowed.add("HEAD")
    allow = ", ".join(sorted(allowed))
    detail = f"{request.scope['path']} does not take {request.scope['method']}; it takes {allow}."
    response = problem_response(MethodNotAllowed(detail), request.scope)
    response.headers["Allow"] = allow
    return response
