"""How a route's requests and answers relate to those that the pools know."""

from typing import Protocol

from forebay.api import sse
from forebay.core.errors import ForebayError


class StreamTranslator(Protocol):
    """Translates one streamed answer."""

    def feed(self, chunk: bytes) -> bytes:
        """The events to send on for `chunk`, whole events of the pool's. Raises UpstreamFailed."""
        ...

    def failed(self, error: ForebayError) -> bytes:
        """The events that tell, in a stream that has begun, that it ends with `error`."""
        ...


class Translation(Protocol):
    """One request, as it is sent to a pool, and the way back. Knows no HTTP."""

    @property
    def body(self) -> bytes:
        """The JSON object for the pool."""
        ...

    def whole(self, answer: bytes) -> bytes:
        """The JSON body of the answer. Raises UpstreamFailed."""
        ...

    def stream(self) -> StreamTranslator: ...


class Verbatim:
    """A request that pools know as it is, and whose answer is told as it is."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    @property
    def body(self) -> bytes:
        return self._body

    def whole(self, answer: bytes) -> bytes:
        return answer

    def stream(self) -> StreamTranslator:
        return _VerbatimStream()


class _VerbatimStream:
    def feed(self, chunk: bytes) -> bytes:
        return chunk

    def failed(self, error: ForebayError) -> bytes:
        return sse.error_event(error)
