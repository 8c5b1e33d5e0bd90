"""Errors as Anthropic's clients know them."""

from typing import Any

import msgspec

from forebay.core.errors import ForebayError

_KINDS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
"""Status → Anthropic's error type; other statuses below 500 are the client's fault, others ours."""


def error_object(error: ForebayError) -> dict[str, str]:
    """Anthropic's `error` object, which is also what a stream that has begun ends with."""
    kind = _KINDS.get(error.status, "invalid_request_error" if error.status < 500 else "api_error")
    return {"type": kind, "message": error.detail}


def error_body(error: ForebayError, request_id: str) -> bytes:
    """The body of a response that tells of `error`."""
    body: dict[str, Any] = {"type": "error", "error": error_object(error), "request_id": request_id}
    return msgspec.json.encode(body)
