"""Signs of life, over the real ledger."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from forebay.core.errors import StoreUnavailable
from forebay.tenancy.reservation.heartbeat import BATCH, Heartbeat
from forebay.tenancy.reservation.lease import Ask, Granted, Refused, Used
from forebay.tenancy.reservation.ledger import Ledger
from forebay.tenancy.reservation.limits import Account, Limits
from forebay.tenancy.reservation.month import Month

TTL_S = 15
SECOND = 1_000_000
TEAM = Account("team", Limits(concurrent_requests=10_000, tokens_per_minute=60, token_burst=100))


class Counters:
    """A `ReservationStore` whose leases expire. Its time is told to it, and it can be unreachable."""

    def __init__(self) -> None:
        self.now_us = 0
        self.reachable = True
        self.batches: list[int] = []
        self._ledger = Ledger(TTL_S * SECOND)

    async def renew(self, seen: Mapping[str, Used]) -> None:
        if not self.reachable:
            raise StoreUnavailable("gone")
        self.batches.append(len(seen))
        self._ledger.renew(seen, self.now_us)

    async def acquire(self, ask: Ask) -> Granted | Refused:
        return self._ledger.acquire(ask, self.now_us, Month("2026-11", 1))

    async def extend(
        self, lease_id: str, accounts: tuple[Account, ...], output_tokens_min: int, output_tokens_max: int
    ) -> int:
        return self._ledger.extend(lease_id, accounts, output_tokens_min, output_tokens_max, self.now_us)

    async def settle(self, lease_id: str, used: Used) -> bool:
        return self._ledger.settle(lease_id, used, self.now_us)

    async def outstanding(self, accounts: Sequence[str]) -> Mapping[str, int]:
        self._ledger.sweep(self.now_us)
        return {account: self._ledger.outstanding(account) for account in accounts}

    async def seed_spent(self, account: str, month: str, nanos: int) -> None:
        self._ledger.seed_spent(account, month, nanos)

    async def open(self, lease: str) -> None:
        await self.acquire(
            Ask(lease_id=lease, accounts=(TEAM,), prompt_tokens=0, output_tokens_min=0, output_tokens_max=0)
        )


def test_what_is_held_lives_and_what_is_not_held_does_not() -> None:
    async def run() -> None:
        counters = Counters()
        heartbeat = Heartbeat(counters, 1.0)
        await counters.open("a")
        await counters.open("b")
        with heartbeat.hold("a"):
            for _ in range(4):
                counters.now_us += 10 * SECOND
                await heartbeat.beat()
            assert await counters.outstanding(["team"]) == {"team": 1}
        counters.now_us += TTL_S * SECOND
        await heartbeat.beat()
        assert await counters.outstanding(["team"]) == {"team": 0}

    asyncio.run(run())


def test_what_was_seen_last_is_what_a_lost_lease_is_settled_with() -> None:
    async def run() -> None:
        counters = Counters()
        heartbeat = Heartbeat(counters, 1.0)
        await counters.open("a")
        heartbeat.seen("a", Used(tokens=1, nanos=0))
        with heartbeat.hold("a"):
            heartbeat.seen("a", Used(tokens=50, nanos=0))
            heartbeat.seen("a", Used(tokens=90, nanos=0))
            await heartbeat.beat()
        counters.now_us += TTL_S * SECOND
        answer = await counters.acquire(
            Ask(lease_id="b", accounts=(TEAM,), prompt_tokens=0, output_tokens_min=0, output_tokens_max=100)
        )
        assert answer.tokens is not None
        assert getattr(answer, "output_tokens", None) == 10

    asyncio.run(run())


def test_it_goes_on_after_errors() -> None:
    async def run() -> None:
        counters = Counters()
        heartbeat = Heartbeat(counters, 0.001)
        await counters.open("a")
        counters.reachable = False
        with heartbeat.hold("a"):
            beating = asyncio.create_task(heartbeat.run())
            try:
                await asyncio.sleep(0.01)
                assert counters.batches == []
                assert not beating.done()
                counters.reachable = True
                async with asyncio.timeout(5):
                    while not counters.batches:  # noqa: ASYNC110  # it is the beat itself that is waited for
                        await asyncio.sleep(0.001)
            finally:
                beating.cancel()

    asyncio.run(run())


def test_many_are_renewed_in_batches() -> None:
    async def run() -> None:
        counters = Counters()
        heartbeat = Heartbeat(counters, 1.0)
        with ExitStack() as held:
            for number in range(BATCH + 1):
                held.enter_context(heartbeat.hold(f"lease-{number}"))
            await heartbeat.beat()
        assert counters.batches == [BATCH, 1]

    asyncio.run(run())
