"""Responses that tell of errors as Anthropic's clients know them."""

from collections.abc import Callable, Mapping
from typing import Any

from litestar import Request, Response

from forebay.core.errors import ForebayError
from forebay.gateway.messages.errors import error_body
from forebay.web.problems import internal_error, problem_response
from forebay.web.request_id import request_id

ANTHROPIC_REQUEST_ID = "request-id"
"""The header in which Anthropic's clients look for it."""

AnyRequest = Request[Any, Any, Any]
ExceptionHandlers = Mapping[int | type[Exception], Callable[[AnyRequest, Any], Response[bytes]]]
"""Litestar's `exception_handlers`."""


def anthropic_exception_handlers() -> ExceptionHandlers:
    """For a route of Anthropic's."""
    return {ForebayError: _forebay_error, Exception: _unexpected}


def _unexpected(request: AnyRequest, error: Exception) -> Response[bytes]:
    return _forebay_error(request, internal_error(error, request.scope))


def _forebay_error(request: AnyRequest, error: ForebayError) -> Response[bytes]:
    """As any problem's, with the same headers and the same line in the log, but for the body."""
    response = problem_response(error, request.scope)
    id_ = request_id(request.scope)
    response.content = error_body(error, id_)
    response.headers[ANTHROPIC_REQUEST_ID] = id_
    response.media_type = "application/json"
    return response
