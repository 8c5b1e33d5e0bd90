"""Which days have expired."""

from datetime import UTC, datetime

import pytest

from forebay.storage.content.retention import expired_days


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("now", "days", "expired"),
    [
        ("2026-03-31T23:59:59", 30, ["2025-12-31", "2026-02-28"]),
        ("2026-04-01T00:00:00", 30, ["2025-12-31", "2026-02-28", "2026-03-01"]),
        ("2026-03-02T23:59:59", 1, ["2025-12-31", "2026-02-28"]),
        ("2026-03-03T00:00:00", 1, ["2025-12-31", "2026-02-28", "2026-03-01"]),
    ],
)
def test_a_day_expires_when_its_last_moment_is_old_enough(now: str, days: int, expired: list[str]) -> None:
    names = ["2025-12-31", "2026-02-28", "2026-03-01", "2026-03-31"]
    assert expired_days(names, at(now), days) == expired


def test_what_is_no_day_never_expires() -> None:
    assert expired_days(["notes", "20200101", "2020-W01-1", "2020-02-30", ""], at("2026-03-31T00:00:00"), 1) == []
