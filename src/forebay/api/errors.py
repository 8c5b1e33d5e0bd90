"""One table: each error of the tree as an RFC 9457 problem that also carries OpenAI's `error` object."""

import math
from typing import Any

import msgspec

from forebay.core import errors

PROBLEM_MEDIA_TYPE = "application/problem+json"
PROBLEM_TYPE_PREFIX = "urn:forebay:problem:"

OPENAI_ERRORS: dict[type[errors.ForebayError], tuple[str, str | None]] = {
    errors.InvalidRequest: ("invalid_request_error", None),
    errors.MalformedJson: ("invalid_request_error", "invalid_json"),
    errors.ContextTooLong: ("invalid_request_error", "context_length_exceeded"),
    errors.InvalidApiKey: ("authentication_error", "invalid_api_key"),
    errors.BudgetExhausted: ("insufficient_quota", "budget_exhausted"),
    errors.PermissionDenied: ("permission_error", "permission_denied"),
    errors.ModelNotFound: ("invalid_request_error", "model_not_found"),
    errors.ResourceNotFound: ("invalid_request_error", "resource_not_found"),
    errors.RouteNotFound: ("invalid_request_error", "unknown_url"),
    errors.MethodNotAllowed: ("invalid_request_error", "method_not_allowed"),
    errors.RequestTimeout: ("invalid_request_error", "request_timeout"),
    errors.Conflict: ("invalid_request_error", "conflict"),
    errors.RequestRepeated: ("invalid_request_error", "request_repeated"),
    errors.PreconditionFailed: ("invalid_request_error", "precondition_failed"),
    errors.BodyTooLarge: ("invalid_request_error", "request_too_large"),
    errors.UnsupportedMediaType: ("invalid_request_error", "unsupported_media_type"),
    errors.TokenRateExceeded: ("tokens", "rate_limit_exceeded"),
    errors.RequestRateExceeded: ("requests", "rate_limit_exceeded"),
    errors.ConcurrencyExceeded: ("requests", "concurrency_exceeded"),
    errors.InternalError: ("server_error", "internal_error"),
    errors.UpstreamFailed: ("server_error", "upstream_failed"),
    errors.CapacityUnavailable: ("server_error", "capacity_unavailable"),
    errors.StoreUnavailable: ("server_error", "store_unavailable"),
    errors.DeadlineExceeded: ("server_error", "deadline_exceeded"),
    errors.ConfigurationError: ("server_error", "configuration_error"),
    errors.ModelFileError: ("server_error", "model_file_error"),
    errors.UnsupportedMachine: ("server_error", "unsupported_machine"),
}
"""Error class → OpenAI's `type` and `code`."""


def openai_error(error: errors.ForebayError) -> dict[str, Any]:
    """OpenAI's `error` object, which is also what a stream that has begun ends with."""
    kind, code = OPENAI_ERRORS[type(error)]
    return {"message": error.detail, "type": kind, "param": error.param, "code": code}


def problem(error: errors.ForebayError) -> bytes:
    """The response body."""
    return msgspec.json.encode(
        {
            "type": PROBLEM_TYPE_PREFIX + error.type,
            "title": error.title,
            "status": error.status,
            "detail": error.detail,
            "error": openai_error(error),
            **error.members,
        }
    )


def headers(error: errors.ForebayError) -> dict[str, str]:
    """The response headers beside `Content-Type`: how to prove who one is; when to come back;
    that the connection ends; whether to try again at all.
    """
    found = dict(error.headers)
    if isinstance(error, errors.InvalidApiKey):
        found["WWW-Authenticate"] = "Bearer"
    if isinstance(error, errors.RequestTimeout):
        # The rest of the body may still come; it must not be taken for the next request.
        found["Connection"] = "close"
    if error.retry_after_s is not None:
        found["Retry-After"] = str(max(1, math.ceil(error.retry_after_s)))
        found["retry-after-ms"] = str(max(1, math.ceil(error.retry_after_s * 1000)))
    if error.should_retry is not None:
        found["x-should-retry"] = "true" if error.should_retry else "false"
    return found
