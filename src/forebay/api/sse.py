"""Server-sent events: framing for those who write them, a parser for those who read them.

The parser follows the WHATWG HTML standard, section 9.2.6, except that an event without data is not told.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from forebay.api.errors import openai_error
from forebay.core.errors import ForebayError, UpstreamFailed

MEDIA_TYPE = "text/event-stream"
DONE_DATA = b"[DONE]"
DONE = b"data: [DONE]\n\n"
"""What OpenAI's streams end with."""

MAX_EVENT_BYTES = 8 * 2**20
_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\r|\n")


def event(data: bytes, name: str = "") -> bytes:
    """One event, with its `name` where it has one. `data` is JSON text, which has no line ends."""
    return (b"event: " + name.encode() + b"\n" if name else b"") + b"data: " + data + b"\n\n"


def comment(text: str) -> bytes:
    """A line that clients ignore; it keeps the connection alive. `text` has no line ends."""
    return b": " + text.encode() + b"\n\n"


def error_event(error: ForebayError) -> bytes:
    """How a stream that has begun tells of its failure."""
    return event(msgspec.json.encode({"error": openai_error(error)}))


@dataclass(frozen=True, slots=True)
class SseEvent:
    """One event; `name` is its `event` field, empty where it has none."""

    data: bytes
    name: str = ""

    @property
    def is_done(self) -> bool:
        return self.data == DONE_DATA


class SseParser:
    """Bytes in, as the network cuts them; events out. One for each stream."""

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_event_bytes = max_event_bytes
        self._pending = bytearray()
        self._scanned = 0
        self._after_cr = False
        self._at_start = True
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._name = ""

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that `chunk` completes. Raises UpstreamFailed where one grows beyond the limit."""
        self._pending += chunk
        events: list[SseEvent] = []
        for line in self._lines():
            if line:
                self._field(line)
            elif self._data:
                events.append(SseEvent(b"\n".join(self._data), self._name))
            if not line:
                self._data, self._data_bytes, self._name = [], 0, ""
        if len(self._pending) + self._data_bytes > self._max_event_bytes:
            raise UpstreamFailed(f"The upstream sent an event of more than {self._max_event_bytes} bytes.")
        return events

    def _lines(self) -> Iterator[bytes]:
        """The whole lines that are there, each ended by LF, CR or CR LF."""
        pending = self._pending
        if self._at_start:
            if len(pending) < len(_BOM) and _BOM.startswith(pending):
                return
            self._at_start = False
            if pending.startswith(_BOM):
                del pending[: len(_BOM)]
        begin = 0
        while ends := _LINE_END.search(pending, max(begin, self._scanned)):
            line = bytes(pending[begin : ends.start()])
            # The LF of a CR LF may come in a later chunk; alone it would look like an empty line.
            is_second_half = self._after_cr and not line and ends[0] == b"\n"
            self._after_cr = ends[0] == b"\r"
            begin = ends.end()
            if not is_second_half:
                yield line
        if len(pending) > begin:
            self._after_cr = False
        del pending[:begin]
        self._scanned = len(pending)

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._data_bytes += len(value) + 1
        elif name == b"event":
            self._name = value.decode(errors="replace")
