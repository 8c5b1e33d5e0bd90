"""The lines of the local usage log: a letter for what it is, a checksum, JSON, a line feed.

What a crash has torn, or a disk has damaged, is told by its checksum and passed over; the lines after it are read.
"""

from collections.abc import Iterator
from zlib import crc32

import msgspec

from forebay.metering.pricing import cost_split
from forebay.metering.usage import OpenedUsage, TokenUsage, UsageRecord

OPENED, SEEN, CLOSED, VOID = b"o", b"s", b"c", b"v"
"""A request was let in; what it has used so far; how it ended; it was not let in after all."""

_MOST = 2**63 - 1
"""That the warehouse's columns hold."""
_PREFIX_BYTES = len(b"o 01234567 ")


class SeenUsage(msgspec.Struct, frozen=True):
    """What a running request had used, and which replica it ran on."""

    id: str
    tokens: TokenUsage
    replica: str


class BookedUsage(UsageRecord, frozen=True, kw_only=True):
    """A record as it goes into the warehouse: `prompt_nanos` is the prompt's part of `cost_nanos`."""

    prompt_nanos: int


class LineId(msgspec.Struct, frozen=True):
    """All that some readers want of a line."""

    id: str


_encoder = msgspec.json.Encoder()


def opened_line(opened: OpenedUsage) -> bytes:
    return _line(OPENED, _encoder.encode(opened))


def seen_line(seen: SeenUsage) -> bytes:
    return _line(SEEN, _encoder.encode(seen))


def void_line(id_: str) -> bytes:
    return _line(VOID, _encoder.encode(LineId(id_)))


def closed_line(opened: OpenedUsage, record: UsageRecord) -> bytes:
    # The record's own cost counts, even should whoever closed it have reckoned otherwise.
    prompt_nanos = min(cost_split(opened, record.tokens)[0], record.cost_nanos)
    booked = BookedUsage(**msgspec.structs.asdict(record), prompt_nanos=prompt_nanos)
    if max(booked.cost_nanos, booked.prompt_tokens, booked.output_tokens) > _MOST:
        booked = _capped(booked)
    return _line(CLOSED, _encoder.encode(booked))


def lines_of(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The letter and the JSON of each line that is whole. A last line without its line feed is still being written."""
    lines = content.split(b"\n")
    lines.pop()
    for line in lines:
        kind, checksum, body = line[:1], line[2:10], line[_PREFIX_BYTES:]
        if body and checksum == b"%08x" % crc32(body, kind[0]):
            yield kind, body


def _capped(booked: BookedUsage) -> BookedUsage:
    """One absurd count, as a broken server may tell, must not make the books unreadable."""
    counts = ("prompt_tokens", "cached_tokens", "output_tokens", "cost_nanos", "prompt_nanos")
    return msgspec.structs.replace(booked, **{name: min(getattr(booked, name), _MOST) for name in counts})


def _line(kind: bytes, body: bytes) -> bytes:
    return b"%b %08x %b\n" % (kind, crc32(body, kind[0]), body)
