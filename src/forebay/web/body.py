"""Reading a request's body, so much and no more."""

import asyncio
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
from litestar import Request
from litestar.types import Receive

from forebay.api.decoding import decode
from forebay.api.unknown_fields import ignored_fields_header
from forebay.core.errors import BodyTooLarge, InvalidRequest, RequestTimeout, UnsupportedMediaType
from forebay.web.disconnect import DisconnectError

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

DEFAULT_MAX_BODY_BYTES = 8 * 2**20
DEFAULT_BODY_TIMEOUT_S = 60.0
MAX_LENGTH_DIGITS = 20
"""Of a Content-Length: as many as 64 bits have."""


@dataclass(frozen=True, slots=True)
class BodyLimits:
    """How large a body may be, and how long it may take to arrive."""

    max_bytes: int
    timeout_s: float


async def read_json(request: Request[Any, Any, Any], type_: type[T], limits: BodyLimits) -> T:
    """The body as a `type_`. Raises what `read_body` and `api.decoding.decode` raise, and UnsupportedMediaType."""
    require_json(request)
    return decode(await read_body(request, limits), type_)


@dataclass(frozen=True, slots=True)
class NotedJson(Generic[S]):
    """A body, decoded; its size in bytes; and the response headers that name its fields that nobody here knows."""

    value: S
    size: int
    headers: dict[str, str]


async def read_noted_json(request: Request[Any, Any, Any], type_: type[S], limits: BodyLimits) -> NotedJson[S]:
    """As `read_json`, with a note of what was not heeded."""
    require_json(request)
    body = await read_body(request, limits)
    value = decode(body, type_)
    return NotedJson(value, len(body), ignored_fields_header(body, type_))


async def read_body(request: Request[Any, Any, Any], limits: BodyLimits) -> bytes:
    """The body. Raises BodyTooLarge, its length declared or not, InvalidRequest, RequestTimeout and DisconnectError."""
    declared = request.headers.get("content-length", "")
    if len(declared) > MAX_LENGTH_DIGITS:
        raise InvalidRequest(f"Content-Length has {len(declared)} digits; write the length without leading zeros.")
    if declared.isdecimal() and int(declared) > limits.max_bytes:
        raise _too_large(limits.max_bytes)
    try:
        async with asyncio.timeout(limits.timeout_s):
            return await _receive_body(request.receive, limits.max_bytes)
    except TimeoutError:
        raise RequestTimeout(
            f"The request body did not arrive within {limits.timeout_s:g} s; send the request again."
        ) from None


def require_json(request: Request[Any, Any, Any]) -> None:
    """Raise UnsupportedMediaType where the body is declared as something else than plain JSON."""
    declared = request.headers.get("content-type", "")
    media_type = declared.partition(";")[0].strip().lower()
    if media_type and media_type != "application/json" and not media_type.endswith("+json"):
        raise UnsupportedMediaType(f"Content-Type is {media_type[:100]!r}; send the body as application/json.")
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", ""):
        raise UnsupportedMediaType(f"Content-Encoding is {encoding[:100]!r}; send the body as it is.")


async def _receive_body(receive: Receive, max_bytes: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise DisconnectError
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > max_bytes:
            raise _too_large(max_bytes)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _too_large(max_bytes: int) -> BodyTooLarge:
    return BodyTooLarge(f"The request body is larger than {max_bytes} bytes; send a shorter one.")
