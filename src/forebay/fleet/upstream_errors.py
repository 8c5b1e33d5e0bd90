"""What a replica's error answer means to the caller of the platform."""

import math
import re
from typing import Any

import msgspec

from forebay.api.decoding import bounded
from forebay.core.errors import (
    BodyTooLarge,
    CapacityUnavailable,
    ContextTooLong,
    ForebayError,
    InvalidRequest,
    UpstreamFailed,
)

RETRY_AFTER_S = 1.0
MAX_RETRY_AFTER_S = 600.0

_TOO_LONG = re.compile(r"maximum context length|context window|maximum model length|max_model_len", re.IGNORECASE)


def error_of(pool: str, model: str, status: int, retry_after: str | None, body: bytes) -> ForebayError:
    """The error for a replica's answer of `status` (300 or more) to a request for its `model`.

    What the client can mend is told in the replica's words. What only the operator can mend (a refused key, an unknown
    model) names the pool and the setting instead, as the replica's words may hold its key.
    """
    if status in {400, 422}:
        return _invalid_request(body)
    if status == 413:
        return BodyTooLarge(f"The pool {pool} does not take a request this large; shorten it.")
    if status in {401, 403}:
        return UpstreamFailed(
            f"The server of the pool {pool} refused the key that is configured for it (status {status}). "
            f"The operator should check pools.{pool}.api_key."
        )
    if status == 404:
        return UpstreamFailed(
            f"The server of the pool {pool} does not know the model {model!r} or has no such path (status 404). "
            f"The operator should check pools.{pool}.upstream_model and pools.{pool}.url."
        )
    if status in {429, 503}:
        return CapacityUnavailable(
            f"The pool {pool} cannot take the request now. Try again shortly.", retry_after_s=_seconds(retry_after)
        )
    return UpstreamFailed(f"A replica of the pool {pool} failed with status {status}. Send the request again.")


def _invalid_request(body: bytes) -> ForebayError:
    message, param, code = _words(body)
    kind = ContextTooLong if code == "context_length_exceeded" or _TOO_LONG.search(message) else InvalidRequest
    return kind(bounded(message), param=param)


def _words(body: bytes) -> tuple[str, str | None, str | None]:
    """Message, param and code of an error body: OpenAI's, vLLM's older one or FastAPI's."""
    unclear = "The model's server refused the request without saying why; check its fields.", None, None
    try:
        answer: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return unclear
    if not isinstance(answer, dict):
        return unclear
    error: Any = answer.get("error", answer)
    if isinstance(error, str):
        return error, None, None
    if not isinstance(error, dict):
        return unclear
    message = error.get("message") or error.get("detail")
    if isinstance(message, list):
        message = msgspec.json.encode(message).decode()
    if not isinstance(message, str):
        return unclear
    return message, _text(error.get("param")), _text(error.get("code"))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _seconds(retry_after: str | None) -> float:
    """A `Retry-After` in seconds; one that is missing, a date or absurd counts as short."""
    try:
        seconds = float(retry_after or "")
    except ValueError:
        return RETRY_AFTER_S
    return RETRY_AFTER_S if math.isnan(seconds) else min(max(seconds, RETRY_AFTER_S), MAX_RETRY_AFTER_S)
