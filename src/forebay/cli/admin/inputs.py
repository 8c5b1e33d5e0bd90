"""What operators type: times, durations, tags."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from sys import stdin

from forebay.core.errors import InvalidRequest

SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)", re.ASCII)
_MONTH = re.compile(r"(\d{4})-(\d{2})", re.ASCII)
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


def month_bounds(text: str, name: str) -> tuple[str, str]:
    """The first days of the month `YYYY-MM` and of the next one, `YYYY-MM-DD`. Raises InvalidRequest."""
    matched = _MONTH.fullmatch(text)
    year, month = (int(matched[1]), int(matched[2])) if matched else (0, 0)
    if not (1 <= month <= 12 and 1970 <= year <= 9998):
        raise InvalidRequest(f"{name}: expected a month such as 2026-11, got {text!r}.")
    following = (year + 1, 1) if month == 12 else (year, month + 1)
    return f"{year:04}-{month:02}-01", f"{following[0]:04}-{following[1]:02}-01"


def duration_s(text: str, name: str) -> float:
    """Seconds of `3600`, `90s`, `30m`, `24h` or `7d`. Raises InvalidRequest."""
    matched = _DURATION.fullmatch(text)
    if matched is None:
        raise InvalidRequest(f"{name}: expected a duration such as 90s, 30m, 24h or 7d, got {text!r}.")
    return float(matched[1]) * SECONDS[matched[2] or "s"]


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


def text_of(file: Path, name: str) -> str:
    """The whole file, standard input where it is `-`. Raises InvalidRequest."""
    try:
        return stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidRequest(f"{name}: {file} cannot be read ({error.strerror}).") from None
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{name}: {file} is not UTF-8 text (byte {error.start}).") from None
