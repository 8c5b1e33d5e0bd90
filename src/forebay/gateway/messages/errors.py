"""Errors as Anthropic's clients know them."""

from typing import Any

import msgspec

from forebay.core.errors import ForebayError

_KINDS = {
    401: "authentication_error",
    402: "billing_error",
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
    return {"type": kind, "message": _words(error)}


def error_body(error: ForebayError, request_id: str) -> bytes:
    """The body of a response that tells of `error`; what a problem has beside Anthropic's members, it has too."""
    body: dict[str, Any] = {"type": "error", "error": error_object(error), "request_id": request_id, **error.members}
    return msgspec.json.encode(body)


def _words(error: ForebayError) -> str:
    """Anthropic's errors have no `param`: the text has to name the field."""
    if error.param is None or error.param in error.detail:
        return error.detail
    return f"{error.param}: {error.detail}"
