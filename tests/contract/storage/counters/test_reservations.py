"""What every `ReservationStore` does, in memory and in a real Valkey."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from forebay.core.clock import ManualClock
from forebay.storage.counters.fallback import FallbackReservations
from forebay.storage.counters.memory import MemoryReservations
from forebay.storage.counters.valkey import ValkeyReservations
from forebay.tenancy.reservation.lease import Ask, Granted, LimitKind, Refused, ReservationStore, Standing, Used
from forebay.tenancy.reservation.limits import Account, Limits
from tests.support.servers.valkey import ValkeyServer

SECOND = 1_000_000
NOON = 1_795_867_200
"""2026-11-28 12:00 UTC."""
TTL_S = 15.0


class Time:
    """Moves when it is told to. Unix time."""

    def __init__(self) -> None:
        self.us = NOON * SECOND

    def passes(self, seconds: float) -> None:
        self.us += round(seconds * SECOND)


Suite = Callable[[ReservationStore, Time], Awaitable[None]]
Run = Callable[[Suite], None]


@pytest.fixture(params=["memory", "valkey", "valkey with fallback"])
def run(request: pytest.FixtureRequest, server: ValkeyServer, prefix: str) -> Run:
    """Runs a coroutine function with a new store and the time that it goes by."""

    async def opened(suite: Suite) -> None:
        time = Time()
        async with AsyncExitStack() as stack:
            if request.param == "memory":
                await suite(MemoryReservations(lambda: time.us, lambda: time.us / SECOND), time)
                return
            store = await stack.enter_async_context(
                ValkeyReservations(server.url, TTL_S, prefix=prefix, now_us=lambda: time.us)
            )
            fallback = FallbackReservations(
                store, without="refuse", gateways=1, clock=ManualClock(), wall=lambda: 0.0, lease_ttl_s=TTL_S
            )
            await suite(store if request.param == "valkey" else fallback, time)

    return lambda suite: asyncio.run(opened(suite))


def account(name: str = "team", **limits: int) -> tuple[Account, ...]:
    return (Account(name, Limits(**limits)),)


def ask(lease: str, accounts: tuple[Account, ...], prompt: int = 0, least: int = 0, most: int = 0, **nanos: int) -> Ask:
    return Ask(
        lease_id=lease,
        accounts=accounts,
        prompt_tokens=prompt,
        output_tokens_min=least,
        output_tokens_max=most,
        **nanos,
    )


async def granted(store: ReservationStore, wanted: Ask) -> Granted:
    answer = await store.acquire(wanted)
    assert isinstance(answer, Granted), answer
    return answer


async def refused(store: ReservationStore, wanted: Ask) -> Refused:
    answer = await store.acquire(wanted)
    assert isinstance(answer, Refused), answer
    return answer


def test_output_tokens_are_as_many_as_the_account_with_the_least_covers(run: Run) -> None:
    accounts = account("a", tokens_per_minute=600, token_burst=100) + account(
        "b", tokens_per_minute=600, token_burst=60
    )

    async def suite(store: ReservationStore, time: Time) -> None:
        answer = await granted(store, ask("1", accounts, prompt=20, least=10, most=500))
        assert answer.output_tokens == 40
        assert answer.tokens == Standing(limit=60, remaining=0, reset_s=6.0)
        assert answer.requests is None

    run(suite)


@pytest.mark.parametrize(
    ("limits", "kind", "limit"),
    [
        ({"tokens_per_minute": 60, "token_burst": 100}, "tokens", 100),
        ({"requests_per_minute": 60, "request_burst": 1}, "requests", 1),
        ({"concurrent_requests": 1}, "concurrency", 1),
        ({"budget_nanos": 1000}, "budget", 1000),
    ],
)
def test_a_limit_that_is_used_up_refuses_and_nothing_changes(
    run: Run, limits: dict[str, int], kind: LimitKind, limit: int
) -> None:
    accounts = account(**limits)

    async def suite(store: ReservationStore, time: Time) -> None:
        wanted = ask("1", accounts, prompt=80, least=0, most=0, prompt_nanos=800)
        await granted(store, wanted)
        answers = [await refused(store, ask("2", accounts, prompt=80, prompt_nanos=800)) for _ in range(3)]
        assert answers[0] == answers[1] == answers[2]
        refusal = answers[0]
        assert (refusal.kind, refusal.account, refusal.limit, refusal.never) == (kind, "team", limit, False)
        assert refusal.available < refusal.asked <= limit
        assert await store.outstanding(["team", "other"]) == {"team": 1, "other": 0}
        assert await store.settle("2", Used(tokens=0, nanos=0)) is False

    run(suite)


def test_it_is_granted_at_the_time_that_was_told_and_not_before(run: Run) -> None:
    accounts = account(tokens_per_minute=7, token_burst=100)

    async def suite(store: ReservationStore, time: Time) -> None:
        await granted(store, ask("1", accounts, prompt=100))
        await store.settle("1", Used(tokens=100, nanos=0))
        refusal = await refused(store, ask("2", accounts, prompt=3))
        assert refusal.retry_after_s is not None
        assert refusal.retry_after_s == pytest.approx(3 * 60 / 7, abs=1e-6)
        time.passes(refusal.retry_after_s - 0.000001)
        assert (await refused(store, ask("2", accounts, prompt=3))).retry_after_s == 0.000001
        time.passes(0.000001)
        await granted(store, ask("2", accounts, prompt=3))

    run(suite)


@pytest.mark.parametrize(
    "limits",
    [
        {"tokens_per_minute": 0},
        {"tokens_per_minute": 1000, "token_burst": 9},
        {"requests_per_minute": 0},
        {"requests_per_minute": 10, "request_burst": 0},
        {"concurrent_requests": 0},
        {"budget_nanos": 99},
    ],
)
def test_what_is_more_than_the_limit_itself_never_comes(run: Run, limits: dict[str, int]) -> None:
    async def suite(store: ReservationStore, time: Time) -> None:
        refusal = await refused(store, ask("1", account(**limits), prompt=10, prompt_nanos=100))
        assert refusal.never
        assert refusal.retry_after_s is None

    run(suite)


def test_the_refusal_told_is_the_one_that_waiting_helps_last(run: Run) -> None:
    short = account("short", requests_per_minute=60, request_burst=1)
    long = account("long", tokens_per_minute=60, token_burst=10)
    slots = account("slots", concurrent_requests=1)
    never = account("never", tokens_per_minute=60, token_burst=9)

    async def suite(store: ReservationStore, time: Time) -> None:
        await granted(store, ask("1", (*short, *slots, *long), prompt=10))
        assert (await refused(store, ask("2", (*short, *slots), prompt=10))).account == "short"
        assert (await refused(store, ask("2", (*short, *slots, *long), prompt=10))).account == "long"
        assert (await refused(store, ask("2", (*short, *long, *never, *slots), prompt=10))).account == "never"
        assert (await refused(store, ask("2", slots, prompt=10))).kind == "concurrency"

    run(suite)


def test_what_was_not_used_comes_back_and_what_was_used_beyond_is_taken(run: Run) -> None:
    accounts = account(tokens_per_minute=60, token_burst=100, concurrent_requests=1)

    async def suite(store: ReservationStore, time: Time) -> None:
        await granted(store, ask("1", accounts, prompt=50, most=50))
        assert await store.settle("1", Used(tokens=30, nanos=0))
        assert not await store.settle("1", Used(tokens=0, nanos=0)), "settled twice"
        answer = await granted(store, ask("2", accounts, prompt=1))
        assert answer.tokens is not None
        assert answer.tokens.remaining == 69
        await store.settle("2", Used(tokens=101, nanos=0))
        refusal = await refused(store, ask("3", accounts, prompt=1))
        assert (refusal.kind, refusal.available, refusal.retry_after_s) == ("tokens", 0, 32.0)

    run(suite)


def test_a_refund_does_not_bring_back_what_would_have_flowed_over(run: Run) -> None:
    """The bucket was full again before the lease ended; had it taken nothing, it would have been no fuller."""
    accounts = account(tokens_per_minute=600, token_burst=100)

    async def suite(store: ReservationStore, time: Time) -> None:
        await granted(store, ask("1", accounts, prompt=50))
        time.passes(10)
        await granted(store, ask("2", accounts, prompt=100))
        await store.settle("1", Used(tokens=0, nanos=0))
        assert (await refused(store, ask("3", accounts, prompt=1))).available == 0

    run(suite)


def test_a_request_that_does_not_count_gives_back_its_request_too(run: Run) -> None:
    accounts = account(requests_per_minute=60, request_burst=1)

    async def suite(store: ReservationStore, time: Time) -> None:
        await granted(store, ask("1", accounts))
        await store.settle("1", Used(tokens=0, nanos=0, counts=False))
        await granted(store, ask("2", accounts))
        await store.settle("2", Used(tokens=0, nanos=0))
        assert (await refused(store, ask("3", accounts))).kind == "requests"

    run(suite)


def test_a_lease_is_extended_by_what_is_there(run: Run) -> None:
    accounts = account(tokens_per_minute=60, token_burst=100, budget_nanos=10_000)

    async def suite(store: ReservationStore, time: Time) -> None:
        await granted(store, ask("1", accounts, prompt=10, most=10, nanos_per_output_token=100))
        assert await store.extend("1", accounts, 10, 50) == 50
        assert await store.extend("1", accounts, 40, 50) == 0, "the budget and the bucket cover 30"
        assert await store.extend("1", accounts, 10, 50) == 30
        assert await store.extend("unknown", accounts, 1, 50) == 0
        await store.settle("1", Used(tokens=15, nanos=500))
        assert await store.extend("1", accounts, 1, 50) == 0
        answer = await granted(store, ask("2", accounts, most=1000, nanos_per_output_token=100))
        assert answer.output_tokens == 85

    run(suite)


def test_a_lease_that_is_extended_often_gives_back_what_it_has_not_used(run: Run) -> None:
    accounts = account(tokens_per_minute=60, token_burst=100)

    async def suite(store: ReservationStore, time: Time) -> None:
        await granted(store, ask("1", accounts, prompt=10))
        assert [await store.extend("1", accounts, 1, 3) for _ in range(20)] == [3] * 20
        await store.settle("1", Used(tokens=55, nanos=0))
        answer = await granted(store, ask("2", accounts, prompt=45))
        assert answer.tokens is not None
        assert answer.tokens.remaining == 0

    run(suite)


def test_what_was_taken_last_is_given_back_first(run: Run) -> None:
    """The bucket was full again before the second take: the first can give nothing back any more."""
    accounts = account(tokens_per_minute=600, token_burst=100)

    async def suite(store: ReservationStore, time: Time) -> None:
        await granted(store, ask("1", accounts, prompt=40))
        time.passes(5)
        assert await store.extend("1", accounts, 30, 30) == 30
        await store.settle("1", Used(tokens=40, nanos=0))
        await granted(store, ask("2", accounts, prompt=100))

    run(suite)


def test_of_a_lease_that_is_extended_often_the_first_takes_count_as_one(run: Run) -> None:
    accounts = account(tokens_per_minute=60, token_burst=100)

    async def suite(store: ReservationStore, time: Time) -> None:
        await granted(store, ask("1", accounts, prompt=10))
        for _ in range(20):
            await store.extend("1", accounts, 3, 3)
        await store.settle("1", Used(tokens=0, nanos=0))
        # The last seven are given back whole; of the 49 before them 10, what was drawn just before the second take.
        assert (await refused(store, ask("2", accounts, prompt=100))).available == 61

    run(suite)


def test_limits_that_change_hold_for_what_runs(run: Run) -> None:
    def team(**limits: int) -> tuple[Account, ...]:
        return account(tokens_per_minute=60, token_burst=100, **limits)

    async def suite(store: ReservationStore, time: Time) -> None:
        await granted(store, ask("1", team(), prompt=10, nanos_per_output_token=10))
        assert await store.extend("1", team(), 1, 20) == 20
        lowered = account(tokens_per_minute=60, token_burst=40)
        assert await store.extend("1", lowered, 1, 20) == 10
        assert await store.extend("1", lowered, 1, 20) == 0
        assert await store.extend("1", account(tokens_per_minute=0), 1, 20) == 0
        assert await store.extend("1", team(budget_nanos=350), 1, 20) == 5, "300 are held of the new budget"
        # A quota that is gone limits nothing any more, also where it has too little; a new one has to wait.
        assert await store.extend("1", account("new", tokens_per_minute=0), 1, 200) == 200
        assert await store.extend("1", team(), 1, 1) == 0
        assert await store.outstanding(["team", "new"]) == {"team": 1, "new": 0}
        await store.settle("1", Used(tokens=40, nanos=0))
        assert (await granted(store, ask("2", team(), most=100))).output_tokens == 60

    run(suite)


def test_a_budget_is_of_the_month_in_which_the_lease_was_acquired(run: Run) -> None:
    accounts = account(budget_nanos=1000)

    async def suite(store: ReservationStore, time: Time) -> None:
        await granted(store, ask("1", accounts, prompt_nanos=600))
        refusal = await refused(store, ask("2", accounts, prompt_nanos=600))
        assert (refusal.kind, refusal.available, refusal.asked) == ("budget", 400, 600)
        assert refusal.retry_after_s == 2.5 * 86_400
        time.passes(2.5 * 86_400 - 1)
        await store.settle("1", Used(tokens=0, nanos=0))
        await granted(store, ask("3", accounts, prompt_nanos=900))
        time.passes(2)
        await granted(store, ask("4", accounts, prompt_nanos=900))
        await store.settle("3", Used(tokens=0, nanos=900))
        await store.settle("4", Used(tokens=0, nanos=100))
        await granted(store, ask("5", accounts, prompt_nanos=900))

    run(suite)


def test_what_the_books_say_counts_where_it_is_more(run: Run) -> None:
    accounts = account(budget_nanos=1000)

    async def suite(store: ReservationStore, time: Time) -> None:
        await store.seed_spent("team", "2026-11", 700)
        await store.seed_spent("team", "2026-10", 1000)
        await store.seed_spent("team", "2026-11", 300)
        assert (await refused(store, ask("1", accounts, prompt_nanos=301))).available == 300
        await granted(store, ask("1", accounts, prompt_nanos=300))

    run(suite)


def test_amounts_beyond_all_limits_are_refused(run: Run) -> None:
    accounts = account(budget_nanos=10**18, tokens_per_minute=10**9)

    async def suite(store: ReservationStore, time: Time) -> None:
        assert (await refused(store, ask("1", accounts, prompt_nanos=10**18 + 1))).kind == "budget"
        dear = ask("1", accounts, least=2**31, most=2**31, nanos_per_output_token=10**12)
        assert (await refused(store, dear)).never
        await granted(store, ask("1", accounts, prompt=10**8, prompt_nanos=9 * 10**15))

    run(suite)


def test_an_acquisition_can_be_repeated(run: Run) -> None:
    accounts = account(tokens_per_minute=60, token_burst=100, requests_per_minute=1, concurrent_requests=1)

    async def suite(store: ReservationStore, time: Time) -> None:
        first = await granted(store, ask("1", accounts, prompt=80))
        assert await granted(store, ask("1", accounts, prompt=80)) == first
        assert await store.outstanding(["team"]) == {"team": 1}

    run(suite)


def test_limits_that_change_hold_at_once(run: Run) -> None:
    async def suite(store: ReservationStore, time: Time) -> None:
        await granted(store, ask("1", account(tokens_per_minute=60, token_burst=100), prompt=100))
        await granted(store, ask("2", account(tokens_per_minute=60, token_burst=150), prompt=50))
        refusal = await refused(store, ask("3", account(tokens_per_minute=60, token_burst=100), prompt=1))
        assert refusal.retry_after_s == 51.0
        faster = account(tokens_per_minute=600, token_burst=100)
        assert (await refused(store, ask("3", faster, prompt=1))).retry_after_s == 5.1
        time.passes(5.1)
        await granted(store, ask("3", faster, prompt=1))
        await granted(store, ask("4", account(), prompt=10**6))

    run(suite)


def test_a_request_under_no_account_is_granted_whole(run: Run) -> None:
    async def suite(store: ReservationStore, time: Time) -> None:
        assert await granted(store, ask("1", (), prompt=10, least=1, most=10**6)) == Granted(
            output_tokens=10**6, requests=None, tokens=None
        )
        assert await store.extend("1", (), 1, 500) == 500
        await store.renew({"1": Used(tokens=5, nanos=0)})
        assert await store.settle("1", Used(tokens=5, nanos=0))
        assert not await store.settle("1", Used(tokens=5, nanos=0))

    run(suite)
