"""What engines have written of the requests that they ran, out of their logs."""

import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from os import fstat
from pathlib import Path
from typing import BinaryIO

import msgspec

from forebay.core.errors import InvalidRequest
from forebay.metering.reconciliation import EngineBooks, EngineCount
from forebay.metering.usage import TokenUsage

EVENT = "generated"
_OLDER = re.compile(r"\.(\d+)$", re.ASCII)
"""Ends the name of an older file, the higher the older; see `fleet.drivers.process_log`."""
STANDARD_INPUT = "-"
MOST_LINE_BYTES = 65_536
_COLOUR = re.compile(rb"\x1b\[[0-9;]*m")
_CONSOLE = re.compile(rb"^(?P<timestamp>\S+) \[info +\] +generated +(?P<fields>\S+=.*)$")
_TIME = re.compile(
    rb'(?:^(?:\x1b\[\d+m)?|"timestamp": ?")(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d))', re.ASCII
)


class _Line(msgspec.Struct, frozen=True):
    event: str
    timestamp: str
    request_id: str
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class EngineLog:
    """The files of one log, oldest first."""

    name: str
    files: Sequence[Path]


def local_logs(data_dir: Path) -> list[EngineLog]:
    """Those of the engines that a gateway with this data directory has started. Raises InvalidRequest: none."""
    folder = data_dir / "logs"
    logs = logs_of((*folder.glob("*.log"), *folder.glob("*.log.1")))
    if not logs:
        raise InvalidRequest(
            f"--engine-log: name the engines' logs; there are none in {folder}, where local pools have theirs."
        )
    return logs


def logs_of(files: Iterable[Path]) -> list[EngineLog]:
    """`NAME.log` with its older files, `NAME.log.1` and so on, is one, called NAME; of two that are called the same,
    the second is called by its path.
    """
    paths: dict[str, list[Path]] = {}
    for file in dict.fromkeys(files):
        paths.setdefault(_OLDER.sub("", str(file)), []).append(file)
    logs: dict[str, EngineLog] = {}
    for path, ages in paths.items():
        short = Path(path).name.removesuffix(".log")
        name = path if short in logs else short
        logs[name] = EngineLog(name, sorted(ages, key=_age, reverse=True))
    return list(logs.values())


def _age(file: Path) -> int:
    older = _OLDER.search(file.name)
    return int(older[1]) if older else 0


def read_logs(logs: Iterable[EngineLog]) -> EngineBooks:
    """What they tell, a line that is there twice once; of a request that ran twice, the sum. Other lines are passed
    over. Raises InvalidRequest where one cannot be read.
    """
    seen: set[_Line] = set()
    counts: dict[str, EngineCount] = {}
    begins: dict[str, float] = {}
    for log in logs:
        for line in _lines(log):
            if log.name not in begins and (time := _TIME.search(line)):
                begins[log.name] = _unix(time[1].decode())
            if EVENT.encode() not in line or (told := _told(line)) is None:
                continue
            if told not in seen:
                seen.add(told)
                counts[told.request_id] = _with(counts.get(told.request_id), told, log.name)
    return EngineBooks(counts, begins)


def _lines(log: EngineLog) -> Iterator[bytes]:
    """Without line feeds. What a file ends with in mid-line goes on in the next."""
    with ExitStack() as opened:
        rest = b""
        for file in _opened(log.files, opened):
            while line := file.readline(MOST_LINE_BYTES):
                rest += line
                if line.endswith(b"\n"):
                    yield rest[:-1]
                    rest = b""
                elif len(rest) >= MOST_LINE_BYTES:
                    rest = b""
        if rest:
            yield rest


def _opened(paths: Sequence[Path], held: ExitStack) -> list[BinaryIO]:
    """Oldest first. The newest one is opened first: should it become an older one meanwhile, it is there once still."""
    files: list[BinaryIO] = []
    inodes: set[tuple[int, int]] = set()
    for path in reversed(paths):
        if str(path) == STANDARD_INPUT:
            files.append(sys.stdin.buffer)
            continue
        try:
            file = held.enter_context(path.open("rb"))
        except FileNotFoundError:
            if len(paths) > 1:
                # It has moved or gone since it was listed.
                continue
            raise InvalidRequest(f"--engine-log: there is no {path}.") from None
        except OSError as error:
            raise InvalidRequest(f"--engine-log: {path} cannot be read ({error.strerror}).") from None
        found = fstat(file.fileno())
        if (found.st_dev, found.st_ino) not in inodes:
            inodes.add((found.st_dev, found.st_ino))
            files.append(file)
    return files[::-1]


def _told(line: bytes) -> _Line | None:
    """Of a line in JSON, whatever a collector of logs has put before it, or as people have it on a terminal."""
    try:
        if (begin := line.find(b"{")) >= 0:
            told = msgspec.json.decode(line[begin:], type=_Line)
        elif shown := _CONSOLE.match(_COLOUR.sub(b"", line).strip()):
            pairs = (field.partition("=") for field in shlex.split(shown["fields"].decode()))
            fields = {name: value for name, _, value in pairs}
            told = msgspec.convert(
                {**fields, "event": EVENT, "timestamp": shown["timestamp"].decode()}, _Line, strict=False
            )
        else:
            return None
        _unix(told.timestamp)
    except ValueError:
        return None
    return told if told.event == EVENT else None


def _unix(text: str) -> float:
    """Raises ValueError."""
    time = datetime.fromisoformat(text)
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def _with(before: EngineCount | None, told: _Line, log: str) -> EngineCount:
    known = (0, 0, 0)
    if before is not None:
        known = before.tokens.prompt_tokens, before.tokens.cached_tokens, before.tokens.output_tokens
    tokens = TokenUsage(
        prompt_tokens=known[0] + told.prompt_tokens,
        cached_tokens=known[1] + told.cached_tokens,
        output_tokens=known[2] + told.completion_tokens,
    )
    return EngineCount(log, _unix(told.timestamp), tokens)
