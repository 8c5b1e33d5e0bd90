"""What a process that died has left in its usage log."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import structlog

from forebay.metering.usage import OpenedUsage, TokenUsage
from forebay.storage.usage import lines
from forebay.storage.usage.segment import SUFFIX

logger = structlog.get_logger(__name__)


class Unfinished(NamedTuple):
    """A request that is, or was, running; `tokens` and `replica` as last seen, None where nothing was seen."""

    opened: OpenedUsage
    tokens: TokenUsage | None
    replica: str | None


def segments_below(directory: Path) -> list[Path]:
    """All segments there, and in what it has taken over itself; oldest first. Raises OSError."""
    return sorted(directory.rglob(f"*{SUFFIX}"), key=lambda path: (path.parent != directory, path))


def next_number(segments: Iterable[Path]) -> int:
    """A number for a segment that comes after these."""
    return max((int(path.name.split("-", 1)[0]) for path in segments), default=0) + 1


def inherited(segments: Sequence[Path]) -> list[tuple[Unfinished, Path]]:
    """What was opened in these segments and never ended, each with the segment that says so. Raises OSError."""
    opened: dict[str, tuple[OpenedUsage, Path]] = {}
    seen: dict[str, lines.SeenUsage] = {}
    ended: set[str] = set()
    for segment in segments:
        for kind, body in lines.lines_of(segment.read_bytes()):
            try:
                if kind == lines.OPENED:
                    line = _opened.decode(body)
                    opened[line.id] = (line, segment)
                elif kind == lines.SEEN:
                    one = _seen.decode(body)
                    seen[one.id] = one
                else:
                    ended.add(_id.decode(body).id)
            except msgspec.MsgspecError as error:
                logger.error("line of a usage log not understood", file=str(segment), error=str(error))
    return [(_unfinished(line, seen.get(id_)), segment) for id_, (line, segment) in opened.items() if id_ not in ended]


def _unfinished(opened: OpenedUsage, seen: lines.SeenUsage | None) -> Unfinished:
    return Unfinished(opened, None, opened.replica) if seen is None else Unfinished(opened, seen.tokens, seen.replica)


_opened = msgspec.json.Decoder(OpenedUsage)
_seen = msgspec.json.Decoder(lines.SeenUsage)
_id = msgspec.json.Decoder(lines.LineId)
