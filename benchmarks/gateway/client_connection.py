"""A keep-alive HTTP connection that only measures."""

import asyncio
import re
import time
from dataclasses import dataclass, field

import httptools

_PIECE = re.compile(rb'"content":\s*"(\d+) ')
NANOS = 1_000_000_000


class ConnectionEndedError(Exception):
    """The server ended the connection before its answer was complete."""


@dataclass(slots=True)
class Seen:
    """One answer. Times in nanoseconds of the monotonic clock; `pieces` are when each was written and when it came."""

    sent: int
    ended: int = 0
    status: int = 0
    body: bytearray = field(default_factory=bytearray)
    pieces: list[tuple[int, int]] = field(default_factory=list)
    done: bool = False
    """Whether a stream came to its end mark."""


class ClientConnection(asyncio.Protocol):
    """One request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._waiting: asyncio.Future[Seen] | None = None
        self._seen = Seen(0)
        self._streaming = False

    @classmethod
    async def open(cls, port: int) -> "ClientConnection":
        _, connection = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        return connection

    @property
    def usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def request(self, data: bytes, *, stream: bool = False) -> Seen:
        """Send it and wait for the whole answer. Raises ConnectionEndedError."""
        if self._transport is None:
            raise ConnectionEndedError
        self._waiting = asyncio.get_running_loop().create_future()
        self._streaming = stream
        self._seen = Seen(time.monotonic_ns())
        self._transport.write(data)
        return await self._waiting

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ConnectionEndedError())

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        held = self._seen.body
        held += body
        if self._streaming:
            end = held.rfind(b"\n\n") + 2
            if end > 1:
                now = time.monotonic_ns()
                events = bytes(held[:end])
                del held[:end]
                self._seen.pieces += [(int(written), now) for written in _PIECE.findall(events)]
                self._seen.done = self._seen.done or b"data: [DONE]" in events

    def on_message_complete(self) -> None:
        seen = self._seen
        seen.ended = time.monotonic_ns()
        seen.status = self._parser.get_status_code()
        keep = self._parser.should_keep_alive()
        self._parser = httptools.HttpResponseParser(self)
        if not keep:
            self.close()
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(seen)
