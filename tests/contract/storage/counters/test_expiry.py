"""Leases that expire in a real Valkey, and those of one process, which do not."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from forebay.storage.counters.memory import MemoryReservations
from forebay.storage.counters.valkey import ValkeyReservations
from forebay.tenancy.reservation.lease import LAPSED_TTLS, MAX_LAPSED, UNUSED, Ask, Granted, Refused, Used
from forebay.tenancy.reservation.limits import Account, Limits
from tests.support.servers.valkey import ValkeyServer

SECOND = 1_000_000
NOON = 1_795_867_200
"""2026-11-28 12:00 UTC."""
TTL_S = 15.0
TEAM = (
    Account("team", Limits(tokens_per_minute=6, token_burst=100, concurrent_requests=1, budget_nanos=1000)),
    Account("key", Limits(requests_per_minute=1, request_burst=3)),
)


class Time:
    """Moves when it is told to. Unix time."""

    def __init__(self) -> None:
        self.us = NOON * SECOND

    def passes(self, seconds: float) -> None:
        self.us += round(seconds * SECOND)


Suite = Callable[[ValkeyReservations, Time], Awaitable[None]]
Run = Callable[[Suite], None]


@pytest.fixture
def run(server: ValkeyServer, prefix: str) -> Run:
    async def opened(suite: Suite) -> None:
        time = Time()
        async with ValkeyReservations(server.url, TTL_S, prefix=prefix, now_us=lambda: time.us) as store:
            await suite(store, time)

    return lambda suite: asyncio.run(opened(suite))


def ask(lease: str, prompt: int = 0, most: int = 0, nanos: int = 0, per_token: int = 0) -> Ask:
    return Ask(
        lease_id=lease,
        accounts=TEAM,
        prompt_tokens=prompt,
        output_tokens_min=0,
        output_tokens_max=most,
        prompt_nanos=nanos,
        nanos_per_output_token=per_token,
    )


async def granted(store: ValkeyReservations, wanted: Ask) -> Granted:
    answer = await store.acquire(wanted)
    assert isinstance(answer, Granted), answer
    return answer


async def refused(store: ValkeyReservations, wanted: Ask) -> Refused:
    answer = await store.acquire(wanted)
    assert isinstance(answer, Refused), answer
    return answer


def test_a_lease_without_signs_of_life_ends_with_what_was_seen_last(run: Run) -> None:
    async def suite(store: ValkeyReservations, time: Time) -> None:
        await granted(store, ask("1", prompt=50, most=50, nanos=1000))
        for _ in range(3):
            time.passes(TTL_S - 1)
            await store.renew({"1": Used(tokens=70, nanos=400), "unknown": Used(tokens=1, nanos=1)})
            assert await store.outstanding(["team"]) == {"team": 1}
        time.passes(TTL_S)
        assert await store.outstanding(["team"]) == {"team": 0}
        answer = await granted(store, ask("2", most=1000, per_token=20))
        # Of 100 tokens 70 were used and 5.7 flowed back; of 1000 nano-dollars 600 are left: 30 tokens' worth.
        assert answer.output_tokens == 30
        assert answer.tokens is not None
        assert answer.tokens.remaining == 5

    run(suite)


def test_a_lease_of_which_nothing_was_seen_only_used_its_request(run: Run) -> None:
    async def suite(store: ValkeyReservations, time: Time) -> None:
        await granted(store, ask("1", prompt=100))
        time.passes(TTL_S)
        answer = await granted(store, ask("2", prompt=100))
        assert answer.requests is not None
        assert answer.requests.remaining == 1

    run(suite)


def test_what_a_lease_used_is_charged_once_also_after_it_expired(run: Run) -> None:
    async def suite(store: ValkeyReservations, time: Time) -> None:
        await granted(store, ask("1", prompt=10, most=90, nanos=900))
        await store.renew({"1": Used(tokens=30, nanos=100)})
        time.passes(TTL_S)
        assert await store.outstanding(["team"]) == {"team": 0}
        assert await store.settle("1", Used(tokens=90, nanos=700))
        assert not await store.settle("1", Used(tokens=90, nanos=700)), "settled twice"
        await store.renew({"1": Used(tokens=99, nanos=999)})
        assert await store.outstanding(["team"]) == {"team": 0}
        assert (await granted(store, ask("2", most=100))).output_tokens == 11
        await store.settle("2", Used(tokens=0, nanos=0))
        assert (await refused(store, ask("3", nanos=301))).available == 300

    run(suite)


def test_what_was_charged_too_much_is_not_given_back(run: Run) -> None:
    async def suite(store: ValkeyReservations, time: Time) -> None:
        await granted(store, ask("1", prompt=100, nanos=1000))
        await store.renew({"1": Used(tokens=80, nanos=800)})
        time.passes(TTL_S)
        assert await store.settle("1", UNUSED)
        answer = await granted(store, ask("2", most=100, per_token=1))
        assert answer.output_tokens == 21
        assert answer.requests is not None
        assert answer.requests.remaining == 1

    run(suite)


def test_a_lease_that_expired_is_taken_up_again_by_a_sign_of_life(run: Run) -> None:
    """Beyond the limits, if need be: it runs."""

    async def suite(store: ValkeyReservations, time: Time) -> None:
        await granted(store, ask("1", prompt=10, most=90, nanos=500))
        time.passes(TTL_S)
        await granted(store, ask("2", prompt=60, nanos=200))
        await store.renew({"1": Used(tokens=40, nanos=300)})
        assert await store.outstanding(["team"]) == {"team": 2}
        await store.settle("2", Used(tokens=60, nanos=200))
        refusal = await refused(store, ask("3"))
        assert (refusal.kind, refusal.retry_after_s) == ("tokens", 600.0), "60 and 100 are drawn of 100"
        assert await store.extend("1", TEAM, 1, 1) == 0
        assert (await refused(store, ask("3", nanos=301))).kind == "budget", "200 and 500"
        slots = Account("team", Limits(concurrent_requests=1))
        assert (await refused(store, replace(ask("3"), accounts=(slots,)))).kind == "concurrency"
        time.passes(TTL_S)
        assert await store.outstanding(["team"]) == {"team": 0}, "it can expire again"
        await store.renew({"1": Used(tokens=50, nanos=350)})
        assert await store.outstanding(["team"]) == {"team": 1}
        assert await store.settle("1", Used(tokens=38, nanos=400))
        # 60 and 40 were used and 1.5 flowed back.
        assert (await granted(store, ask("3", most=100))).output_tokens == 1
        assert not await store.settle("1", Used(tokens=0, nanos=0))
        await store.settle("3", UNUSED)
        refusal = await refused(store, ask("4", nanos=401))
        assert (refusal.kind, refusal.available) == ("budget", 400), "200 and 400 are spent"

    run(suite)


def test_to_extend_a_lease_is_a_sign_of_life(run: Run) -> None:
    async def suite(store: ValkeyReservations, time: Time) -> None:
        await granted(store, ask("1", prompt=10))
        time.passes(TTL_S)
        assert await store.outstanding(["team"]) == {"team": 0}
        assert await store.extend("1", TEAM, 1, 20) == 20
        assert await store.outstanding(["team"]) == {"team": 1}
        assert await store.settle("1", Used(tokens=30, nanos=0))
        assert (await granted(store, ask("2", most=100))).output_tokens == 70

    run(suite)


def test_an_expired_lease_is_forgotten_in_time(run: Run) -> None:
    async def suite(store: ValkeyReservations, time: Time) -> None:
        await granted(store, ask("1", prompt=100))
        time.passes(TTL_S)
        await store.outstanding(["team"])
        time.passes(LAPSED_TTLS * TTL_S)
        await store.renew({"1": Used(tokens=100, nanos=0)})
        assert await store.outstanding(["team"]) == {"team": 0}
        assert not await store.settle("1", Used(tokens=100, nanos=0))
        assert (await granted(store, ask("2", most=100))).output_tokens == 100

    run(suite)


def test_an_account_is_kept_while_an_expired_lease_is_remembered(run: Run, server: ValkeyServer, prefix: str) -> None:
    async def suite(store: ValkeyReservations, time: Time) -> None:
        await granted(store, ask("1"))
        time.passes(TTL_S)
        await store.outstanding(["team"])
        with server.client() as client:
            assert client.pttl(f"{{{prefix}}}:leases:account:team") > LAPSED_TTLS * TTL_S * 1000

    run(suite)


def test_of_many_expired_leases_the_oldest_are_forgotten(run: Run, server: ValkeyServer, prefix: str) -> None:
    async def suite(store: ValkeyReservations, time: Time) -> None:
        await granted(store, ask("old"))
        time.passes(TTL_S)
        await granted(store, ask("new"))
        with server.client() as client:
            later = time.us + 10**12
            others = {f"other-{number}": later for number in range(MAX_LAPSED - 1)}
            client.zadd(f"{{{prefix}}}:leases:forgettings", others)
        time.passes(TTL_S)
        assert await store.settle("new", Used(tokens=0, nanos=5))
        assert not await store.settle("old", Used(tokens=0, nanos=5))

    run(suite)


def test_the_leases_of_a_process_alone_do_not_expire() -> None:
    """One that was stopped for long finds its own leases held."""

    async def scenario() -> None:
        time = Time()
        store = MemoryReservations(lambda: time.us, lambda: time.us / SECOND)
        assert isinstance(await store.acquire(ask("1", prompt=100)), Granted)
        time.passes(100_000)
        answer = await store.acquire(ask("2"))
        assert isinstance(answer, Refused)
        assert answer.kind == "concurrency"
        await store.renew({})
        assert await store.outstanding(["team"]) == {"team": 1}
        assert await store.settle("1", Used(tokens=1150, nanos=600))
        refusal = await store.acquire(ask("2", nanos=600))
        assert isinstance(refusal, Refused)
        assert (refusal.kind, refusal.available) == ("budget", 400)

    asyncio.run(scenario())
