"""Valkey stopped, frozen, started again, or without its scripts."""

import asyncio
from collections.abc import Iterator

import pytest

from forebay.core.clock import ManualClock
from forebay.core.errors import ConfigurationError, StoreUnavailable
from forebay.storage.counters.fallback import FallbackReservations
from forebay.storage.counters.valkey import ValkeyReservations
from forebay.tenancy.reservation.lease import Ask, Granted, Refused, Used
from forebay.tenancy.reservation.limits import Account, Limits
from tests.support.servers.valkey import ValkeyServer, valkey_server

TTL_S = 15.0
TEAM = Account("team", Limits(tokens_per_minute=60, token_burst=100, concurrent_requests=5, budget_nanos=1000))


@pytest.fixture
def own_server() -> Iterator[ValkeyServer]:
    with valkey_server() as running:
        yield running


def ask(lease: str, prompt: int = 10, account: Account = TEAM) -> Ask:
    return Ask(
        lease_id=lease,
        accounts=(account,),
        prompt_tokens=prompt,
        output_tokens_min=0,
        output_tokens_max=0,
        prompt_nanos=1,
    )


def fallback(store: ValkeyReservations, clock: ManualClock, *, share: bool) -> FallbackReservations:
    return FallbackReservations(
        store,
        without="share" if share else "refuse",
        gateways=4,
        clock=clock,
        wall=lambda: 1_795_867_200.0,
        lease_ttl_s=TTL_S,
    )


def test_the_server_may_forget_its_scripts(server: ValkeyServer, prefix: str) -> None:
    async def run() -> None:
        async with ValkeyReservations(server.url, TTL_S, prefix=prefix) as store:
            assert isinstance(await store.acquire(ask("1")), Granted)
            with server.client() as client:
                client.script_flush()
            assert isinstance(await store.acquire(ask("2")), Granted)
            with server.client() as client:
                client.script_flush()
            assert await store.settle("1", Used(tokens=0, nanos=0))
            assert await store.outstanding(["team"]) == {"team": 1}

    asyncio.run(run())


@pytest.mark.parametrize("scheme", ["valkey", "redis", "unix"])
def test_each_kind_of_address_is_reached(server: ValkeyServer, prefix: str, scheme: str) -> None:
    url = server.socket_url if scheme == "unix" else f"{scheme}://127.0.0.1:{server.port}/0"

    async def run() -> None:
        async with ValkeyReservations(url, TTL_S, prefix=prefix) as store:
            assert isinstance(await store.acquire(ask("1")), Granted)

    asyncio.run(run())


def test_what_is_no_address_is_a_configuration_error() -> None:
    async def run() -> None:
        async with ValkeyReservations("http://127.0.0.1", TTL_S):
            pass

    with pytest.raises(ConfigurationError, match=r"storage\.counters"):
        asyncio.run(run())


def test_it_is_reached_again_after_it_was_gone(own_server: ValkeyServer) -> None:
    async def run() -> None:
        async with ValkeyReservations(own_server.url, TTL_S) as store:
            assert isinstance(await store.acquire(ask("1")), Granted)
            own_server.stop()
            with pytest.raises(StoreUnavailable, match=r"storage\.counters") as caught:
                await store.acquire(ask("2"))
            assert caught.value.retry_after_s
            own_server.start()
            assert isinstance(await store.acquire(ask("2")), Granted)

    asyncio.run(run())


def test_a_server_that_does_not_answer_is_not_waited_for(own_server: ValkeyServer) -> None:
    async def run() -> None:
        async with ValkeyReservations(own_server.url, TTL_S, timeout_s=0.2) as store:
            await store.acquire(ask("1"))
            own_server.freeze()
            async with asyncio.timeout(5):
                with pytest.raises(StoreUnavailable):
                    await store.acquire(ask("2"))
            own_server.go_on()
            async with asyncio.timeout(5):
                assert await store.settle("1", Used(tokens=0, nanos=0))

    asyncio.run(run())


def test_refusing_while_it_is_gone(own_server: ValkeyServer) -> None:
    async def run() -> None:
        clock = ManualClock()
        async with ValkeyReservations(own_server.url, TTL_S) as shared:
            store = fallback(shared, clock, share=False)
            await store.acquire(ask("1"))
            own_server.stop()
            for _ in range(3):
                with pytest.raises(StoreUnavailable) as caught:
                    await store.acquire(ask("2"))
                assert caught.value.retry_after_s
            unlimited = Ask(lease_id="3", accounts=(), prompt_tokens=1, output_tokens_min=1, output_tokens_max=7)
            assert isinstance(await store.acquire(unlimited), Granted)
            assert await store.extend("3", (), 1, 9) == 9
            assert await store.settle("3", Used(tokens=0, nanos=0))
            assert await store.extend("1", (TEAM,), 1, 9) == 0
            own_server.start()
            clock.advance(1)
            assert isinstance(await store.acquire(ask("2")), Granted)

    asyncio.run(run())


def test_a_share_while_it_is_gone(own_server: ValkeyServer) -> None:
    async def run() -> None:
        clock = ManualClock()
        async with ValkeyReservations(own_server.url, TTL_S) as shared:
            store = fallback(shared, clock, share=True)
            await store.acquire(ask("before"))
            own_server.stop()
            granted = await store.acquire(ask("1", 15))
            assert isinstance(granted, Granted)
            assert granted.tokens is not None
            assert (granted.tokens.limit, granted.tokens.remaining) == (25, 10)
            # One slot of five for each of four gateways.
            refused = await store.acquire(ask("2"))
            assert isinstance(refused, Refused)
            assert (refused.kind, refused.limit, refused.never) == ("concurrency", 1, False)
            assert await store.settle("1", Used(tokens=15, nanos=1))
            with pytest.raises(StoreUnavailable, match="share"):
                await store.acquire(ask("3", 26))
            never = await store.acquire(ask("3", 101))
            assert isinstance(never, Refused)
            assert (never.never, never.limit) == (True, 100)
            assert isinstance(await store.acquire(ask("4")), Granted)

            own_server.start()
            clock.advance(1)
            assert isinstance(await store.acquire(ask("5", 60)), Granted), "the whole limit again"
            assert await store.outstanding(["team"]) == {"team": 2}
            assert await store.settle("4", Used(tokens=0, nanos=0)), "it was acquired here"
            assert await store.settle("5", Used(tokens=0, nanos=0))
            assert await store.outstanding(["team"]) == {"team": 0}

    asyncio.run(run())


def test_a_share_of_the_budget_counts_what_the_books_say(own_server: ValkeyServer) -> None:
    account = Account("team", Limits(budget_nanos=1000))

    async def run() -> None:
        async with ValkeyReservations(own_server.url, TTL_S) as shared:
            store = fallback(shared, ManualClock(), share=True)
            await store.seed_spent("team", "2026-11", 997)
            own_server.stop()
            refused = await store.acquire(ask("1", account=account))
            assert isinstance(refused, Refused)
            assert (refused.kind, refused.available) == ("budget", 0)

    asyncio.run(run())


def test_what_could_not_be_settled_is_settled_later(own_server: ValkeyServer) -> None:
    """The server stays up and keeps its counters; it only does not answer for a while."""

    async def run() -> None:
        clock = ManualClock()
        async with ValkeyReservations(own_server.url, TTL_S, timeout_s=0.2) as shared:
            store = fallback(shared, clock, share=False)
            await store.acquire(ask("1"))
            await store.acquire(ask("2"))
            own_server.freeze()
            assert await store.settle("1", Used(tokens=90, nanos=1))
            assert await store.settle("2", Used(tokens=0, nanos=0))
            with pytest.raises(StoreUnavailable):
                await store.renew({})
            own_server.go_on()
            clock.advance(1)
            await store.renew({})
            assert await store.outstanding(["team"]) == {"team": 0}
            refused = await store.acquire(ask("3", 20))
            assert isinstance(refused, Refused), "what was used is taken"

    asyncio.run(run())


def test_what_ran_while_the_server_was_frozen_for_long_is_counted_and_charged(own_server: ValkeyServer) -> None:
    """Longer than a lease lives: it expires there, while its gateway lives."""
    ttl_s = 0.5

    async def run() -> None:
        clock = ManualClock()
        async with ValkeyReservations(own_server.url, ttl_s, timeout_s=0.2) as shared:
            store = FallbackReservations(
                shared, without="refuse", gateways=1, clock=clock, wall=lambda: 0.0, lease_ttl_s=ttl_s
            )
            await store.acquire(ask("ended"))
            await store.acquire(ask("runs"))
            own_server.freeze()
            assert await store.settle("ended", Used(tokens=90, nanos=990))
            await asyncio.sleep(2 * ttl_s)
            own_server.go_on()
            assert await shared.outstanding(["team"]) == {"team": 0}, "both have expired"
            clock.advance(2 * ttl_s)
            await store.renew({"runs": Used(tokens=10, nanos=1)})
            assert await store.outstanding(["team"]) == {"team": 1}
            assert isinstance(await store.acquire(ask("3", 0)), Granted)
            refused = await store.acquire(ask("4", 90))
            assert isinstance(refused, Refused)
            assert refused.kind == "tokens"
            assert await store.settle("runs", Used(tokens=10, nanos=9))
            refused = await store.acquire(ask("5", 0))
            assert isinstance(refused, Refused)
            assert (refused.kind, refused.available) == ("budget", 0)

    asyncio.run(run())


def test_an_acquisition_that_was_given_up_holds_nothing(own_server: ValkeyServer) -> None:
    """The client left while the server had the request but had not answered yet."""

    async def run() -> None:
        async with ValkeyReservations(own_server.url, TTL_S, timeout_s=5.0) as shared:
            store = fallback(shared, ManualClock(), share=False)
            await store.acquire(ask("1"))
            own_server.freeze()
            acquiring = asyncio.create_task(store.acquire(ask("2")))
            # Until the request is on its way.
            await asyncio.sleep(0.1)
            acquiring.cancel()
            with pytest.raises(asyncio.CancelledError):
                await acquiring
            own_server.go_on()
            assert await shared.outstanding(["team"]) == {"team": 2}, "the server has granted it"
            await store.renew({})
            assert await store.outstanding(["team"]) == {"team": 1}

    asyncio.run(run())
