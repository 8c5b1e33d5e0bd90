"""How a route's requests and answers relate to those that the pools know."""

from typing import Protocol

from forebay.api import sse
from forebay.core.errors import ForebayError


class StreamTranslator(Protocol):
    """Translates one streamed answer."""

    @property
    def begun(self) -> bool:
        """Whether any event was made."""
        ...

    def feed(self, chunk: bytes) -> bytes:
        """The events to send on for `chunk`, whole events of the pool's. Raises the error that it tells of."""
        ...

    def failed(self, error: ForebayError) -> bytes:
        """The events that tell, in a stream that has begun, that it ends with `error`. Those that were made of a chunk
        before it raised come first.
        """
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

    def error(self, error: ForebayError) -> ForebayError:
        """`error` of the pool in the words of the request as it came."""
        ...


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

    def error(self, error: ForebayError) -> ForebayError:
        return error


class _VerbatimStream:
    def __init__(self) -> None:
        self.begun = False

    def feed(self, chunk: bytes) -> bytes:
        self.begun = True
        return chunk

    def failed(self, error: ForebayError) -> bytes:
        return sse.error_event(error)
