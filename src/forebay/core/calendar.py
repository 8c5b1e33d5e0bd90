"""Calendar days and months, in UTC. Moments are in Unix seconds."""

import re
from datetime import UTC, date, datetime, timedelta

from forebay.core.errors import InvalidRequest

LAST_DAY = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
"""Its first moment; later ones have no day after them."""
_MONTH = re.compile(r"([0-9]{4})-(0[1-9]|1[0-2])")


def day_of(when: float) -> date:
    """The day that a moment is in."""
    return datetime.fromtimestamp(when, UTC).date()


def month_of(when: float) -> str:
    """The month, such as `2026-11`, that a moment is in."""
    return datetime.fromtimestamp(when, UTC).strftime("%Y-%m")


def month_bounds(month: str, param: str = "month") -> tuple[float, float]:
    """Its first moment, and that of the next month. Raises InvalidRequest, which names `param`."""
    if (match := _MONTH.fullmatch(month)) is None or not 1970 <= int(match[1]) <= 9000:
        raise InvalidRequest(f"{param}: expected a month such as 2026-11, got {month!r}.", param=param)
    first = datetime(int(match[1]), int(match[2]), 1, tzinfo=UTC)
    return first.timestamp(), (first + timedelta(days=31)).replace(day=1).timestamp()
