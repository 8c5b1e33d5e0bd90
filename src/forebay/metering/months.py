"""Calendar days and months, in UTC."""

import re
from datetime import UTC, datetime, timedelta

from forebay.core.errors import InvalidRequest

_MONTH = re.compile(r"([0-9]{4})-(0[1-9]|1[0-2])")


def month_of(when: float) -> str:
    """The month, such as `2026-11`, that a moment (Unix seconds) is in."""
    return datetime.fromtimestamp(when, UTC).strftime("%Y-%m")


def month_bounds(month: str) -> tuple[float, float]:
    """Its first moment, and that of the next month, in Unix seconds. Raises InvalidRequest."""
    if (match := _MONTH.fullmatch(month)) is None or not 1970 <= int(match[1]) <= 9000:
        raise InvalidRequest(f"`{month}` is not a month; give one such as 2026-11.", param="month")
    first = datetime(int(match[1]), int(match[2]), 1, tzinfo=UTC)
    return first.timestamp(), (first + timedelta(days=31)).replace(day=1).timestamp()


def day_of(when: float) -> str:
    """The day, such as `2026-11-30`, that a moment (Unix seconds) is in."""
    return datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%d")
