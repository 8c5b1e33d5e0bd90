"""A run ends once, also where its end is cut off by a client that leaves; what it holds, shows and is billed."""

import asyncio
from dataclasses import replace

import pytest

from forebay.metering.usage import TokenUsage, UsageStatus
from forebay.serving.metered_run import Ending
from forebay.serving.request import Repeat
from forebay.tenancy.reservation.lease import UNUSED, Used
from forebay.tenancy.resources import Quota
from tests.support.metered import REQUEST, Bench, Reservations, asked, lease, used

ONE_AT_ONCE = Quota(id="team", tenant="team", concurrent_requests=1)
USED, OTHER = used(5), used(99)


class SlowReservations(Reservations):
    """Counters whose settlements take until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = asyncio.Event()

    async def settle(self, lease_id: str, used: Used) -> bool:
        await self.slow.wait()
        return await super().settle(lease_id, used)


def ending(tokens: TokenUsage = USED, status: UsageStatus = "completed") -> Ending:
    return Ending(status=status, http_status=200, tokens=tokens, counted="engine")


def test_an_end_that_was_cut_off_goes_on_where_it_was() -> None:
    async def scenario() -> None:
        reservations = SlowReservations()
        bench = Bench(ONE_AT_ONCE, reservations=reservations)
        run, desk = bench.run(), bench.desk
        await run.begin()
        first = asyncio.create_task(run.end(ending()))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait((first,))
        assert (run.ended, desk.closed, desk.told) == (False, [], [])
        reservations.slow.set()
        await run.end(ending(OTHER, status="client_left"))
        assert run.ended
        assert run.ending == ending()
        assert [(record.status, record.output_tokens) for record in desk.closed] == [("completed", 5)]
        assert len(desk.told) == 1
        assert await reservations.outstanding(["team"]) == {"team": 0}

    asyncio.run(scenario())


def test_it_is_settled_and_closed_once() -> None:
    async def scenario() -> None:
        bench = Bench(ONE_AT_ONCE)
        run, desk, reservations = bench.run(), bench.desk, bench.reservations
        await run.begin()
        await run.end(ending())
        await run.end(ending(OTHER))
        assert [used.tokens for used in reservations.settled] == [15]
        assert [record.cost_nanos for record in desk.closed] == [1000 * (10 + 2 * 5)]
        assert desk.told == list(desk.closed)

    asyncio.run(scenario())


def test_what_was_turned_away_costs_nothing() -> None:
    async def scenario() -> None:
        bench = Bench(ONE_AT_ONCE)
        run, desk, reservations = bench.run(), bench.desk, bench.reservations
        await run.begin()
        await run.turn_away(503)
        assert reservations.settled == [UNUSED]
        assert [(record.status, record.cost_nanos) for record in desk.closed] == [("failed", 0)]
        assert desk.told == [None]

    asyncio.run(scenario())


def test_more_is_taken_by_halves_and_only_where_it_is_lacking() -> None:
    async def scenario() -> None:
        bench = Bench(Quota(id="team", tenant="team", tokens_per_minute=10 + 16 + 8 + 5))
        run = bench.run(asked({}, stream=True))
        assert (await run.begin()).granted.output_tokens == 16
        assert await run.covers(17)
        # Of the 13 left it took the half of what it held, 8.
        assert await bench.reservations.extend("r1", bench.books.admission.accounts(run.request), 6, 6) == 0
        assert await run.covers(24)
        assert await run.covers(29)
        assert not await run.covers(30)

    asyncio.run(scenario())


def test_nothing_is_taken_for_what_it_holds() -> None:
    async def scenario() -> None:
        bench = Bench(Quota(id="team", tenant="team", tokens_per_minute=10 + 16 + 9))
        run = bench.run(asked({}, stream=True))
        await run.begin()
        assert await run.covers(16)
        assert await bench.reservations.extend("r1", bench.books.admission.accounts(run.request), 9, 9) == 9

    asyncio.run(scenario())


def test_what_it_has_used_so_far_is_told_while_it_lives_and_not_after() -> None:
    async def scenario() -> None:
        bench = Bench(ONE_AT_ONCE)
        run = bench.run()
        await run.begin()
        run.dispatched(lease())
        run.progress(used(3))
        await bench.heartbeat.beat()
        await run.end(ending())
        await bench.heartbeat.beat()
        assert bench.reservations.renewed == [{"r1": Used(tokens=13, nanos=16_000)}, {}]

    asyncio.run(scenario())


def test_times_are_from_arrival_and_between_tokens() -> None:
    async def scenario() -> None:
        bench = Bench()
        run = bench.run(replace(REQUEST, arrived=bench.clock.now()))
        await run.begin()
        bench.clock.advance(1)
        run.dispatched(lease())
        for output in (0, 1, 3):
            bench.clock.advance(2)
            run.progress(used(output))
        await run.end(ending(used(3)))
        (record,) = bench.desk.closed
        assert (record.queue_wait_s, record.ttft_s, record.tpot_s) == (1, 5, 1)
        assert record.replica == "pool-0"

    asyncio.run(scenario())


def test_what_came_back_ran_nowhere() -> None:
    async def scenario() -> None:
        bench = Bench()
        run = bench.run(replace(REQUEST, repeat=Repeat("digest", "print")))
        await run.begin()
        run.dispatched(lease())
        run.came_back()
        assert run.endpoint is None
        await run.turn_away(503)
        (record,) = bench.desk.closed
        assert (record.replica, record.queue_wait_s, record.idempotency_hash) == (None, None, "digest")

    asyncio.run(scenario())


@pytest.mark.parametrize(("status", "learned"), [("completed", 64), ("stopped", 16), ("client_left", 16)])
def test_only_what_ended_by_itself_says_how_long_answers_are(status: UsageStatus, learned: int) -> None:
    async def scenario() -> int:
        bench = Bench()
        for number in range(20):
            run = bench.run(asked({"n": 2}, id=f"r{number}"))
            await run.begin()
            await run.end(ending(used(128), status))
        return bench.lengths.p95("team/chat")

    assert asyncio.run(scenario()) == learned


def test_what_was_refused_holds_nothing_and_is_not_written_down() -> None:
    async def scenario() -> None:
        bench = Bench(Quota(id="team", tenant="team", tokens_per_minute=1))
        run = bench.run()
        with pytest.raises(Exception, match="may take 60 tokens"):
            await run.begin()
        await run.turn_away(429)
        assert (bench.desk.closed, bench.desk.told, bench.reservations.settled) == ([], [None], [UNUSED])
        assert run.headers == {}

    asyncio.run(scenario())
