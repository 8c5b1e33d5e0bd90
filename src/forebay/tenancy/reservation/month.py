"""The calendar month, in UTC, that a budget is for."""

from dataclasses import dataclass
from datetime import UTC, datetime

US_PER_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Month:
    """`name` like `2026-11`; `left_us`: microseconds until the next one begins."""

    name: str
    left_us: int


def month_at(unix_us: int) -> Month:
    """The month at a time in Unix microseconds."""
    now = datetime.fromtimestamp(unix_us // US_PER_SECOND, UTC)
    years, month = divmod(now.month, 12)
    following = datetime(now.year + years, month + 1, 1, tzinfo=UTC)
    return Month(f"{now.year:04}-{now.month:02}", int(following.timestamp()) * US_PER_SECOND - unix_us)
