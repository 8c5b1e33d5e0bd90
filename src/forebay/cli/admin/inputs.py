"""What operators type: times, durations, tags."""

import re
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from cyclopts import Parameter

from forebay.core.errors import InvalidRequest

STANDARD_INPUT = "-"


def _require_file(_type: object, value: object) -> None:
    """Raises ValueError for a flag that stands where the name of a file is missing."""
    for file in value if isinstance(value, tuple) else (value,):
        if isinstance(file, Path) and str(file) != STANDARD_INPUT and str(file).startswith("-"):
            raise ValueError(
                f"expected a file, or - for standard input, before {file}; a file of that name is ./{file}"
            )


INPUT = Parameter(allow_leading_hyphen=True, validator=_require_file)
"""Of a flag that takes files: `-` alone is standard input."""

SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)", re.ASCII)
_UNIX = re.compile(r"\d{1,11}(?:\.\d+)?", re.ASCII)


def unix_time(text: str, name: str) -> float:
    """Unix seconds of `YYYY-MM-DD`, of RFC 3339 (UTC where it names no zone), or as they are. Raises InvalidRequest."""
    if _UNIX.fullmatch(text) and not _is_year(text):
        return float(text)
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequest(
            f"{name}: expected a time such as 2026-12-01, 2026-12-01T08:00:00Z or Unix seconds, got {text!r}."
        ) from None
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp()


def _is_year(text: str) -> bool:
    """Whether digits are rather a date without its dashes, or a part of one, than seconds."""
    return len(text) in {4, 8} and text.isdigit()


def duration_s(text: str, name: str, most_days: int | None = None) -> float:
    """Seconds of `3600`, `90s`, `30m`, `24h` or `7d`. Raises InvalidRequest."""
    matched = _DURATION.fullmatch(text)
    if matched is None:
        raise InvalidRequest(f"{name}: expected a duration such as 90s, 30m, 24h or 7d, got {text!r}.")
    seconds = float(matched[1]) * SECONDS[matched[2] or "s"]
    if most_days is not None and seconds > most_days * SECONDS["d"]:
        raise InvalidRequest(f"{name}: expected at most {most_days}d, got {text}.")
    return seconds


def tags_of(texts: Iterable[str], name: str) -> dict[str, str]:
    """`name=value` each. Raises InvalidRequest."""
    tags: dict[str, str] = {}
    for text in texts:
        key, separator, value = text.partition("=")
        if not key or not separator:
            raise InvalidRequest(f"{name}: expected NAME=VALUE such as team=search, got {text!r}.")
        if key in tags:
            raise InvalidRequest(f"{name}: {key} is given twice.")
        tags[key] = value
    return tags


def shown_time(unix_s: float | None, none: str) -> str:
    """In UTC, to the second; a midnight is its day alone."""
    if unix_s is None:
        return none
    try:
        text = f"{datetime.fromtimestamp(unix_s, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return f"{unix_s:g}"
    return text.removesuffix(" 00:00:00")


def past(unix_s: float, now: float) -> str:
    """What is wrong with a time that should be to come, both in Unix seconds."""
    return f"{shown_time(unix_s, '')} is past: it is {shown_time(now, '')} now (UTC); give a later time."


def text_of(file: Path, name: str) -> str:
    """The whole file, standard input where it is `-`. Raises InvalidRequest."""
    try:
        return sys.stdin.read() if str(file) == STANDARD_INPUT else file.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidRequest(f"{name}: {file} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{name}: {file} is not UTF-8 text (byte {error.start}).") from None
