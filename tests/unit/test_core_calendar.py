"""Days and months, in UTC."""

from datetime import date

import pytest

from forebay.core.calendar import LAST_DAY, day_of, month_bounds, month_of
from forebay.core.errors import InvalidRequest
from forebay.tenancy.reservation.month import US_PER_SECOND, Month, month_at

MIDNIGHT = 1_764_547_200.0
"""2025-12-01 00:00 UTC."""


def test_a_month_begins_and_ends_at_midnight_utc() -> None:
    assert month_bounds("2025-12") == (MIDNIGHT, MIDNIGHT + 31 * 86400)
    assert month_bounds("2024-02")[1] - month_bounds("2024-02")[0] == 29 * 86400
    assert (month_of(MIDNIGHT), day_of(MIDNIGHT)) == ("2025-12", date(2025, 12, 1))
    assert (month_of(MIDNIGHT - 1), day_of(MIDNIGHT - 1)) == ("2025-11", date(2025, 11, 30))
    assert day_of(LAST_DAY) == date.max


@pytest.mark.parametrize(
    "wrong", ["2025-13", "2025-00", "2025-1", "", "0001-01", "9999-12", "２０２５-12", "2025-12\n"]
)
def test_what_is_no_month_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^--month: .*such as 2026-11") as refused:
        month_bounds(wrong, "--month")
    assert refused.value.param == "--month"


def test_a_budget_s_month_is_left_with_the_next_one_s_beginning() -> None:
    midnight_us = int(MIDNIGHT) * US_PER_SECOND
    assert month_at(midnight_us - 1) == Month("2025-11", 1)
    assert month_at(midnight_us) == Month("2025-12", 31 * 86400 * US_PER_SECOND)
