"""What the counters are told of the books."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from forebay.metering.report import Spent
from forebay.serving.budget_seeding import AGAIN_S, BudgetSeeding, spent_under
from forebay.storage.counters.memory import MemoryReservations
from forebay.tenancy.reservation.lease import Ask, Granted, Refused
from forebay.tenancy.reservation.limits import Account, Limits
from forebay.tenancy.resources import Quota

NOON = 1_764_504_000.0
TEAM = Quota(id="team", tenant="team", monthly_budget_usd=Decimal("0.000001"))
ACCOUNT = Account("team", Limits(budget_nanos=1000))


@dataclass(frozen=True)
class Row:
    nanos: int
    tenant: str = "team"
    alias: str = "chat"
    key: str = "key-1"


@dataclass
class Bench:
    """Books that say `nanos`, and counters that may lose their memory."""

    nanos: int = 400
    now: float = NOON
    readings: int = 0
    counters: MemoryReservations = field(init=False)
    seeding: BudgetSeeding = field(init=False)

    def __post_init__(self) -> None:
        self.counters = self.empty()
        self.seeding = BudgetSeeding(lambda: [TEAM], self.spent, self.counters, lambda: self.now)

    def empty(self) -> MemoryReservations:
        return MemoryReservations(lambda: 0, lambda: self.now)

    async def spent(self, month: str) -> Sequence[Row]:
        assert month == "2025-11"
        self.readings += 1
        return [Row(self.nanos), Row(9999, tenant="other")]

    def seed(self) -> None:
        asyncio.run(self.seeding.seed())

    def left(self) -> int:
        """Of the budget."""
        ask = Ask(
            lease_id="probe",
            accounts=(ACCOUNT,),
            prompt_tokens=0,
            output_tokens_min=0,
            output_tokens_max=10_000,
            nanos_per_output_token=1,
        )
        outcome = asyncio.run(self.counters.acquire(ask))
        assert isinstance(outcome, Granted | Refused)
        return outcome.output_tokens if isinstance(outcome, Granted) else outcome.available


def test_a_budget_is_of_what_its_quota_is_for() -> None:
    rows = [
        Spent(tenant=tenant, alias=alias, key=key, nanos=nanos)
        for tenant, alias, key, nanos in (
            ("team", "chat", "key-1", 1),
            ("team", "chat", "key-2", 10),
            ("team", "code", "key-1", 100),
            ("other", "chat", "key-1", 1000),
        )
    ]
    assert spent_under(Quota(id="q", tenant="team"), rows) == 111
    assert spent_under(Quota(id="q", tenant="team", alias="chat"), rows) == 11
    assert spent_under(Quota(id="q", tenant="team", key="key-1"), rows) == 101


def test_a_budget_begins_with_what_the_books_say() -> None:
    bench = Bench()
    bench.seed()
    assert bench.left() == 600


def test_all_are_told_again_after_a_while_and_where_the_books_have_more() -> None:
    bench = Bench()
    bench.seed()
    bench.nanos = 700
    bench.now += AGAIN_S - 1
    bench.seed()
    assert (bench.readings, bench.left()) == (1, 600)
    bench.now += 1
    bench.seed()
    assert (bench.readings, bench.left()) == (2, 300)
    bench.nanos = 800
    bench.seeding.seed_again()
    bench.seed()
    assert (bench.readings, bench.left()) == (3, 200)


def test_what_the_counters_know_of_more_counts() -> None:
    bench = Bench()
    bench.seed()
    bench.nanos = 100
    bench.seeding.seed_again()
    bench.seed()
    assert bench.left() == 600


def test_what_becomes_more_while_the_books_are_read_is_not_missed() -> None:
    bench = Bench()

    async def grows(month: str) -> Sequence[Row]:
        rows = await bench.spent(month)
        if bench.readings == 1:
            bench.nanos = 900
            bench.seeding.seed_again()
        return rows

    bench.seeding = BudgetSeeding(lambda: [TEAM], grows, bench.counters, lambda: bench.now)
    bench.seed()
    bench.seed()
    assert bench.left() == 100
