"""What becomes of the requests of a process that has died."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from forebay.core.errors import StoreUnavailable
from forebay.fleet.replica import Endpoint
from forebay.metering.pricing import cost_nanos
from forebay.metering.usage import OpenedUsage, TokenUsage, UsageRecord
from forebay.serving.recovery import Recovery
from forebay.serving.repeat_book import FirstRequest
from forebay.serving.repeat_notes import RepeatNotes
from forebay.storage.counters.memory import MemoryReservations
from forebay.storage.counters.repeats import MemoryRepeats
from forebay.storage.usage.inheritance import Unfinished
from forebay.tenancy.reservation.lease import Ask, Used
from forebay.tenancy.reservation.limits import Account, Limits
from tests.contract.storage.usage.records import NOON, opened, tokens

SEEN, FINAL = tokens(100, 0, 3), tokens(100, 40, 25)
POOL = "assistant-large"
TEAM = Account("team", Limits(tokens_per_minute=1, token_burst=1000))


@dataclass
class DeadLog:
    """A log that was taken over."""

    left: list[Unfinished]
    closed: list[UsageRecord] = field(default_factory=list[UsageRecord])

    async def adopt(self) -> None:
        pass

    def recovered(self) -> Sequence[Unfinished]:
        left, self.left = self.left, []
        return left

    async def close(self, record: UsageRecord) -> None:
        self.closed.append(record)


@dataclass
class Teller:
    """A replica's book."""

    told: TokenUsage | None

    async def usage_of(self, endpoint: Endpoint, request_id: str) -> TokenUsage | None:
        return self.told


class GoneReservations(MemoryReservations):
    """Counters that cannot be reached."""

    async def settle(self, lease_id: str, used: Used) -> bool:
        raise StoreUnavailable("gone")


def recovery_of(
    log: DeadLog,
    teller: Teller,
    reservations: MemoryReservations,
    *,
    repeats: MemoryRepeats | None = None,
    closed_some: Callable[[], None] = lambda: None,
) -> Recovery:
    endpoint = Endpoint("http://h/v1", "m", None, takes_priority=True, health_url="http://h/health", tells_usage=True)
    return Recovery(
        log,
        teller,
        endpoints={POOL: endpoint},
        unix_time=lambda: NOON + 60,
        notes=RepeatNotes(repeats or MemoryRepeats(lambda: NOON), 60.0),
        reservations=reservations,
        closed_some=closed_some,
    )


def recover(log: DeadLog, teller: Teller, reservations: MemoryReservations) -> int:
    """Once; how often it was told that the books have more."""
    told: list[None] = []
    recovery = recovery_of(log, teller, reservations, closed_some=lambda: told.append(None))

    async def a_moment() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await recovery.run()

    asyncio.run(a_moment())
    return len(told)


def counters(kind: type[MemoryReservations] = MemoryReservations) -> MemoryReservations:
    return kind(lambda: 0, lambda: NOON)


def left(usage: OpenedUsage) -> Unfinished:
    return Unfinished(usage, SEEN, "assistant-large-0")


def test_the_replica_s_book_counts_and_its_lease_is_settled() -> None:
    usage, reservations = opened("r1"), counters()
    ask = Ask(lease_id="r1", accounts=(TEAM,), prompt_tokens=100, output_tokens_min=500, output_tokens_max=500)
    asyncio.run(reservations.acquire(ask))
    log = DeadLog([left(usage)])
    assert recover(log, Teller(FINAL), reservations) == 1
    (record,) = log.closed
    assert (record.status, record.counted, record.output_tokens) == ("recovered", "engine", 25)
    assert record.cost_nanos == cost_nanos(usage, FINAL)
    assert asyncio.run(reservations.outstanding(["team"])) == {"team": 0}
    rest = Ask(lease_id="r2", accounts=(TEAM,), prompt_tokens=875, output_tokens_min=0, output_tokens_max=0)
    again = asyncio.run(reservations.acquire(rest))
    assert again.tokens is not None
    assert again.tokens.remaining == 0, "125 of 1000 are used, 875 now held"


def test_what_was_last_seen_counts_where_the_replica_does_not_know() -> None:
    log = DeadLog([left(opened("r1"))])
    recover(log, Teller(None), counters())
    assert [(record.counted, record.output_tokens) for record in log.closed] == [("last_seen", 3)]


def test_the_books_are_closed_though_the_counters_are_gone() -> None:
    log = DeadLog([left(opened("r1")), left(opened("r2"))])
    recover(log, Teller(FINAL), counters(GoneReservations))
    assert [record.id for record in log.closed] == ["r1", "r2"]


def test_what_had_an_idempotency_key_is_not_run_again() -> None:
    usage = opened("r1", idempotency_hash="digest")
    repeats = MemoryRepeats(lambda: NOON)
    recovery = recovery_of(DeadLog([left(usage)]), Teller(FINAL), counters(), repeats=repeats)

    async def state() -> str:
        first = FirstRequest(request_id="again", fingerprint="", state="running", alive_until=0.0)
        found = await repeats.claim("digest", first, 60.0)
        return "free" if found is None else found.state

    async def adopt_and_run() -> tuple[str, str]:
        await recovery.adopt()
        before = await state()
        with suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await recovery.run()
        return before, await state()

    assert asyncio.run(adopt_and_run()) == ("running", "ended")


def test_nothing_is_told_where_nothing_was_left() -> None:
    assert recover(DeadLog([]), Teller(FINAL), counters()) == 0
