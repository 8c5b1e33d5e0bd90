"""How runs end that nobody waits for any more."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from forebay.fleet.replica import Endpoint
from forebay.metering.usage import NOTHING, TokenUsage
from forebay.serving import settler as settling
from forebay.serving.metered_run import Ending, MeteredRun
from forebay.serving.settler import CLIENT_LEFT_STATUS, Settler
from forebay.tenancy.reservation.lease import UNUSED, Used
from tests.support.metered import Bench, Reservations, lease, used


class Teller:
    """A replica's book, which may hang; `asked` is how often it was asked."""

    def __init__(self, told: TokenUsage | None, *, hangs: bool = False) -> None:
        self._told = told
        self._hangs = hangs
        self.asked = 0

    async def usage_of(self, endpoint: Endpoint, request_id: str) -> TokenUsage | None:
        self.asked += 1
        if self._hangs:
            await asyncio.Event().wait()
        return self._told


def after(bench: Bench, teller: Teller, what: Callable[[Settler, MeteredRun], Awaitable[None]], *, ran: bool) -> None:
    """`what` is done to a run that began and, where it `ran`, has shown 3 tokens of output."""

    async def scenario() -> None:
        run = bench.run()
        await run.begin()
        if ran:
            run.dispatched(lease())
            run.progress(used(3))
        settler = Settler(teller)
        async with settler.running():
            await what(settler, run)

    asyncio.run(scenario())


async def leave(settler: Settler, run: MeteredRun) -> None:
    settler.leave(run, "client_left", CLIENT_LEFT_STATUS)


def billed(bench: Bench) -> list[tuple[str, int, str, int]]:
    return [(each.status, each.http_status, each.counted, each.output_tokens) for each in bench.desk.closed]


@pytest.mark.parametrize(
    ("told", "expected"),
    [(used(9), ("client_left", 499, "engine", 9)), (None, ("client_left", 499, "last_seen", 3))],
)
def test_a_run_that_was_left_is_billed_by_its_replica_s_book_or_by_what_was_seen(
    told: TokenUsage | None, expected: tuple[str, int, str, int]
) -> None:
    bench = Bench()
    after(bench, Teller(told), leave, ran=True)
    assert billed(bench) == [expected]


def test_one_that_never_reached_a_replica_costs_nothing() -> None:
    bench, teller = Bench(), Teller(used(9))
    after(bench, teller, leave, ran=False)
    assert (bench.reservations.settled, bench.desk.told, teller.asked) == ([UNUSED], [None], 0)


class Gated(Reservations):
    """Counters that settle once the gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()

    async def settle(self, lease_id: str, used: Used) -> bool:
        await self.gate.wait()
        return await super().settle(lease_id, used)


def test_one_that_was_about_to_end_ends_as_it_was_to() -> None:
    reservations = Gated()
    bench, teller = Bench(reservations=reservations), Teller(used(9))
    ending = Ending(status="completed", http_status=200, tokens=used(5), counted="engine")

    async def cut_off(settler: Settler, run: MeteredRun) -> None:
        first = asyncio.create_task(run.end(ending))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait((first,))
        reservations.gate.set()
        await leave(settler, run)

    after(bench, teller, cut_off, ran=True)
    assert (billed(bench), teller.asked) == ([("completed", 200, "engine", 5)], 0)


@pytest.mark.parametrize(
    ("http_status", "told", "asked", "ran_after_all"),
    [
        (400, used(9), 0, False),
        (499, used(9), 0, False),
        (500, used(9), 1, True),
        (503, NOTHING, 1, False),
    ],
)
def test_a_refusal_costs_nothing_unless_the_replica_says_that_it_ran(
    http_status: int, told: TokenUsage, asked: int, ran_after_all: bool
) -> None:
    bench, teller = Bench(), Teller(told)

    async def scenario() -> None:
        run = bench.run()
        await run.begin()
        run.dispatched(lease())
        await Settler(teller).refused(run, http_status)

    asyncio.run(scenario())
    assert teller.asked == asked
    assert (bench.reservations.settled == [UNUSED]) == (not ran_after_all)
    expected = ("failed", http_status, "engine", 9) if ran_after_all else ("failed", http_status, "last_seen", 0)
    assert billed(bench) == [expected]


def test_a_replica_that_does_not_answer_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settling, "LAST_MOMENTS_S", 0.01)
    bench = Bench()
    after(bench, Teller(None, hangs=True), leave, ran=True)
    assert bench.desk.closed == [], "it is recovered at the next start"
