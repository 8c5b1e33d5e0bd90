"""The ledger's own: calendar, forgetting, many expiries. The rest is in the property and contract tests."""

import calendar
from datetime import UTC, datetime

import pytest

from forebay.tenancy.reservation.lease import Ask, Granted, Used
from forebay.tenancy.reservation.ledger import MAX_EXPIRED_AT_ONCE, Ledger
from forebay.tenancy.reservation.limits import Account, Limits
from forebay.tenancy.reservation.month import Month, month_at

SECOND = 1_000_000
TTL_US = 15 * SECOND
MONTH = Month("2026-11", 1)


def _ask(lease: str, account: Account, tokens: int = 0, nanos: int = 0) -> Ask:
    return Ask(
        lease_id=lease,
        accounts=(account,),
        prompt_tokens=tokens,
        output_tokens_min=0,
        output_tokens_max=0,
        prompt_nanos=nanos,
    )


@pytest.mark.parametrize(
    ("at", "name"),
    [
        (datetime(2026, 11, 30, 23, 59, 59, 999_999, UTC), "2026-11"),
        (datetime(2026, 12, 1, tzinfo=UTC), "2026-12"),
        (datetime(2026, 12, 31, 23, 59, tzinfo=UTC), "2026-12"),
        (datetime(2028, 2, 29, 12, tzinfo=UTC), "2028-02"),
    ],
)
def test_a_month_lasts_until_the_next_one_begins(at: datetime, name: str) -> None:
    unix_us = calendar.timegm(at.timetuple()) * SECOND + at.microsecond
    month = month_at(unix_us)
    assert month.name == name
    assert month_at(unix_us + month.left_us).name > name
    assert month_at(unix_us + month.left_us - 1).name == name


def test_an_account_is_forgotten_when_nothing_needs_to_be_known_of_it() -> None:
    ledger = Ledger(TTL_US)
    account = Account("a", Limits(tokens_per_minute=60, token_burst=10))
    assert isinstance(ledger.acquire(_ask("1", account, 10), 0, MONTH), Granted)
    ledger.forget_idle(0)
    assert ledger.outstanding("a") == 1
    ledger.settle("1", Used(tokens=10, nanos=0), 0)
    ledger.forget_idle(10 * SECOND - 1)
    assert ledger.counters("a") is not None, "its bucket is not full yet"
    ledger.forget_idle(10 * SECOND)
    assert ledger.counters("a") is None


def test_an_account_is_not_forgotten_while_a_lease_under_it_is_remembered() -> None:
    ledger = Ledger(TTL_US)
    account = Account("a", Limits(tokens_per_minute=60, token_burst=10))
    ledger.acquire(_ask("1", account, 10), 0, MONTH)
    ledger.sweep(TTL_US)
    ledger.forget_idle(TTL_US)
    assert ledger.settle("1", Used(tokens=10, nanos=0), TTL_US)
    assert not isinstance(ledger.acquire(_ask("2", account, 1), TTL_US, MONTH), Granted)


def test_what_was_spent_is_not_forgotten() -> None:
    ledger = Ledger(TTL_US)
    account = Account("a", Limits(budget_nanos=100))
    ledger.acquire(_ask("1", account, nanos=60), 0, MONTH)
    ledger.settle("1", Used(tokens=0, nanos=60), 0)
    ledger.forget_idle(10**15)
    assert not isinstance(ledger.acquire(_ask("2", account, nanos=60), 10**15, MONTH), Granted)


def test_many_leases_that_expire_together_are_settled_over_the_next_calls() -> None:
    ledger = Ledger(TTL_US)
    account = Account("a", Limits(concurrent_requests=MAX_EXPIRED_AT_ONCE + 1))
    for number in range(MAX_EXPIRED_AT_ONCE + 1):
        ledger.acquire(_ask(str(number), account), 0, MONTH)
    ledger.sweep(TTL_US - 1)
    assert ledger.outstanding("a") == MAX_EXPIRED_AT_ONCE + 1
    ledger.sweep(TTL_US)
    assert ledger.outstanding("a") == 1
    ledger.sweep(TTL_US)
    assert ledger.outstanding("a") == 0


def test_what_a_gateway_with_old_limits_says_does_not_open_the_door() -> None:
    """Two that call by turns with a small and a large burst get the large one once, not the difference each time."""
    ledger = Ledger(TTL_US)
    granted = 0
    for number in range(50):
        account = Account("a", Limits(tokens_per_minute=60, token_burst=(10, 20)[number % 2]))
        if isinstance(ledger.acquire(_ask(str(number), account, 10), 0, MONTH), Granted):
            granted += 10
    assert granted == 20
