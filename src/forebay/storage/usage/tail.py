"""The records that are still in the local logs of this machine."""

from collections.abc import Iterator
from pathlib import Path

from forebay.storage.usage import lines
from forebay.storage.usage.inheritance import segments_below


def closed_records(content: bytes) -> bytes:
    """The records in a segment, or in whole lines of one, as JSON lines."""
    return b"".join(body + b"\n" for kind, body in lines.lines_of(content) if kind == lines.CLOSED)


def write_tail(root: Path, target: Path) -> None:
    """The records in all logs below `root`, whichever process writes them, as a file of JSON lines. Raises OSError."""
    with target.open("wb") as file:
        for content in _contents(root):
            file.write(closed_records(content))


def _contents(root: Path) -> Iterator[bytes]:
    for segment in segments_below(root):
        try:
            content = segment.read_bytes()
        except FileNotFoundError:
            # It has gone to the warehouse, or its whole directory to another process, which then is looked at again.
            if (moved := next(root.rglob(segment.name), None)) is None:
                continue
            content = moved.read_bytes()
        yield content
