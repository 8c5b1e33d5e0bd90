"""Relays a stream of server-sent events, whole events only."""

from typing import Any

import msgspec

from forebay.api import sse
from forebay.core.errors import UpstreamFailed

_EMPTY_LINES = (b"\n\n", b"\n\r\n", b"\r\r")
"""An event ends with an empty line; these are all the ways in which one can follow a line."""
_LONGEST = max(map(len, _EMPTY_LINES))


class _Chunk(msgspec.Struct):
    """What the relay must know of an event's data."""

    error: Any = None


_chunk = msgspec.json.Decoder(_Chunk)


class EventRelay:
    """Bytes in, as the network cuts them; the same bytes out, as soon as they are whole events that can be understood.

    An answer that breaks off within an event thereby ends for the client after the last whole one.
    """

    def __init__(self, pool: str, max_event_bytes: int = sse.MAX_EVENT_BYTES) -> None:
        self._pool = pool
        self._max_event_bytes = max_event_bytes
        self._held = b""
        self.ended = False
        """Whether an event came that ends an answer: `[DONE]`, or an error."""

    def feed(self, chunk: bytes) -> bytes:
        """The whole events that `chunk` completes. Raises UpstreamFailed where one is malformed, or has no end."""
        scanned = max(0, len(self._held) - _LONGEST)
        pending = self._held + chunk if self._held else chunk
        end = max(_after_last(pending, ending, scanned) for ending in _EMPTY_LINES)
        events, self._held = pending[:end], pending[end:]
        if len(self._held) > self._max_event_bytes:
            raise UpstreamFailed(f"A replica of the pool {self._pool} sent an event without an end.")
        self._check(events)
        return events

    def finish(self) -> bytes:
        """What is left when the stream has ended: an event whose empty line is missing. Raises UpstreamFailed."""
        return self.feed(b"\n\n") if self._held.strip() else b""

    def _check(self, events: bytes) -> None:
        data: list[bytes] = []
        for line in events.splitlines():
            if line.startswith(b"data:"):
                data.append(line[5:].removeprefix(b" "))
            elif not line and data:
                self._check_data(b"\n".join(data))
                data = []

    def _check_data(self, data: bytes) -> None:
        if data == sse.DONE_DATA:
            self.ended = True
            return
        try:
            str(data, "utf-8")
            failed = _chunk.decode(data).error is not None
        except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
            raise UpstreamFailed(f"A replica of the pool {self._pool} sent an event that is no JSON object.") from None
        self.ended = self.ended or failed


def _after_last(pending: bytes, ending: bytes, start: int) -> int:
    at = pending.rfind(ending, start)
    return 0 if at < 0 else at + len(ending)
