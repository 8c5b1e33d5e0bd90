"""The calendar month, in UTC, that a budget is for."""

from dataclasses import dataclass

from forebay.core.calendar import month_bounds, month_of

US_PER_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Month:
    """`name` like `2026-11`; `left_us`: microseconds until the next one begins."""

    name: str
    left_us: int


def month_at(unix_us: int) -> Month:
    """The month at a time in Unix microseconds."""
    name = month_of(unix_us // US_PER_SECOND)
    _, following = month_bounds(name)
    return Month(name, int(following) * US_PER_SECOND - unix_us)
