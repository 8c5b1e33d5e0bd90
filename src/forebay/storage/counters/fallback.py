"""What a gateway does while the counters that it shares with others cannot be reached."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import structlog

from forebay.core.clock import Clock
from forebay.core.errors import StoreUnavailable
from forebay.storage.counters.memory import MemoryReservations
from forebay.tenancy.reservation.lease import LAPSED_TTLS, UNUSED, Ask, Granted, Refused, ReservationStore, Used
from forebay.tenancy.reservation.ledger import Ledger
from forebay.tenancy.reservation.limits import Account, Limits
from forebay.tenancy.reservation.month import US_PER_SECOND, Month

PROBE_EVERY_S = 0.5
RETRY_AFTER_S = 1.0
MAX_OWED = 10_000

T = TypeVar("T")
logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Owed:
    """A settlement that the shared counters have not got yet; after `until` the lease may be forgotten there."""

    used: Used
    until: float


class FallbackReservations:
    """A `ReservationStore` over a shared one. While that is gone: with `without` "refuse" nothing is acquired
    (StoreUnavailable); with "share" this gateway admits, in its own memory, its share of every limit: the limit divided
    by the number of gateways, rounded down. A request that only the whole limit covers is refused meanwhile
    (StoreUnavailable). So all gateways together admit at most the limits once more than they should, while it lasts.

    A lease is settled where it was acquired; what cannot be settled now is owed, and delivered with a later `renew`
    while the lease is remembered there, also after it has expired. A call that fails holds off the others: one in
    PROBE_EVERY_S is tried, so that few wait.
    """

    def __init__(
        self,
        shared: ReservationStore,
        *,
        without: Literal["refuse", "share"],
        gateways: int,
        clock: Clock,
        wall: Callable[[], float],
        lease_ttl_s: float,
    ) -> None:
        self._shared = shared
        self._without = without
        self._gateways = gateways
        self._clock = clock
        self._lease_ttl_s = lease_ttl_s
        self._memory = MemoryReservations(lambda: int(clock.now() * US_PER_SECOND), wall)
        self._local: set[str] = set()
        self._owed: dict[str, Owed] = {}
        self._next_probe: float | None = None

    async def acquire(self, ask: Ask) -> Granted | Refused:
        if not ask.accounts:
            # Nothing limits it, so nobody else needs to know it.
            self._local.add(ask.lease_id)
            return await self._memory.acquire(ask)
        self._owed.pop(ask.lease_id, None)
        try:
            # An answer that was lost may have been a grant.
            return await self._reach(lambda: self._shared.acquire(ask), lambda: self._owe(ask.lease_id, UNUSED))
        except StoreUnavailable:
            if self._without == "refuse":
                raise
        return await self._acquire_share(ask)

    async def _acquire_share(self, ask: Ask) -> Granted | Refused:
        answer = await self._memory.acquire(replace(ask, accounts=self._shares(ask.accounts)))
        if isinstance(answer, Granted):
            self._local.add(ask.lease_id)
        elif answer.never:
            whole = Ledger(lease_ttl_us=None).acquire(ask, 0, Month("", 0))
            if isinstance(whole, Refused) and whole.never:
                return whole
            raise StoreUnavailable(
                f"The counters of quotas cannot be reached, and this gateway's share of the {answer.kind} of the quota "
                f"{answer.account} ({answer.limit}) does not cover the request ({answer.asked}). Try again later.",
                retry_after_s=RETRY_AFTER_S,
            )
        return answer

    def _shares(self, accounts: tuple[Account, ...]) -> tuple[Account, ...]:
        return tuple(Account(account.name, share(account.limits, self._gateways)) for account in accounts)

    async def extend(
        self, lease_id: str, accounts: tuple[Account, ...], output_tokens_min: int, output_tokens_max: int
    ) -> int:
        """0 also while the shared counters are gone: nothing more is known to be there."""
        if lease_id in self._local:
            return await self._memory.extend(lease_id, self._shares(accounts), output_tokens_min, output_tokens_max)
        try:
            return await self._reach(
                lambda: self._shared.extend(lease_id, accounts, output_tokens_min, output_tokens_max)
            )
        except StoreUnavailable:
            return 0

    async def settle(self, lease_id: str, used: Used) -> bool:
        """True also for what is owed. Never raises."""
        if lease_id in self._local:
            self._local.discard(lease_id)
            return await self._memory.settle(lease_id, used)
        try:
            return await self._reach(lambda: self._shared.settle(lease_id, used), lambda: self._owe(lease_id, used))
        except StoreUnavailable:
            self._owe(lease_id, used)
            return True

    async def renew(self, seen: Mapping[str, Used]) -> None:
        await self._memory.renew({lease: used for lease, used in seen.items() if lease in self._local})
        await self._deliver()
        shared = {lease: used for lease, used in seen.items() if lease not in self._local}
        if shared:
            await self._reach(lambda: self._shared.renew(shared))

    async def outstanding(self, accounts: Sequence[str]) -> Mapping[str, int]:
        shared = await self._reach(lambda: self._shared.outstanding(accounts))
        local = await self._memory.outstanding(accounts)
        return {account: shared[account] + local[account] for account in accounts}

    async def seed_spent(self, account: str, month: str, nanos: int) -> None:
        await self._memory.seed_spent(account, month, -(-nanos // self._gateways))
        await self._reach(lambda: self._shared.seed_spent(account, month, nanos))

    async def _reach(self, call: Callable[[], Awaitable[T]], when_lost: Callable[[], None] | None = None) -> T:
        """The shared store's answer, unless it was gone a moment ago. Raises StoreUnavailable. Calls `when_lost` where
        the call may have been carried out but its answer is not known.
        """
        if self._next_probe is not None:
            if self._clock.now() < self._next_probe:
                raise StoreUnavailable("The counters of quotas cannot be reached.", retry_after_s=RETRY_AFTER_S)
            self._next_probe = self._clock.now() + PROBE_EVERY_S
        try:
            answer = await call()
        except asyncio.CancelledError:
            if when_lost is not None:
                when_lost()
            raise
        except StoreUnavailable as error:
            if self._next_probe is None:
                logger.warning("counters cannot be reached", detail=error.detail, without_counters=self._without)
            self._next_probe = self._clock.now() + PROBE_EVERY_S
            if when_lost is not None:
                when_lost()
            raise
        if self._next_probe is not None:
            self._next_probe = None
            logger.info("counters can be reached again")
        return answer

    def _owe(self, lease_id: str, used: Used) -> None:
        self._owed[lease_id] = Owed(used, self._clock.now() + LAPSED_TTLS * self._lease_ttl_s)
        if len(self._owed) > MAX_OWED:
            del self._owed[next(iter(self._owed))]

    async def _deliver(self) -> None:
        for lease_id, owed in list(self._owed.items()):
            if self._clock.now() < owed.until:
                await self._reach(lambda lease=lease_id, used=owed.used: self._shared.settle(lease, used))
            if self._owed.get(lease_id) is owed:
                del self._owed[lease_id]


def share(limits: Limits, gateways: int) -> Limits:
    """What each of so many gateways may use."""

    def part(limit: int | None) -> int | None:
        return None if limit is None else limit // gateways

    return Limits(
        tokens_per_minute=part(limits.tokens_per_minute),
        token_burst=part(limits.token_burst),
        requests_per_minute=part(limits.requests_per_minute),
        request_burst=part(limits.request_burst),
        concurrent_requests=part(limits.concurrent_requests),
        budget_nanos=part(limits.budget_nanos),
    )
