"""Counters in the memory of one process."""

from collections.abc import Callable, Mapping, Sequence

from forebay.tenancy.reservation.lease import Ask, Granted, Refused, Used
from forebay.tenancy.reservation.ledger import Ledger
from forebay.tenancy.reservation.limits import Account
from forebay.tenancy.reservation.month import US_PER_SECOND, month_at

FORGET_EVERY_US = 60 * US_PER_SECOND


class MemoryReservations:
    """A `ReservationStore` of this process alone: what it counts ends with it, so its leases do not expire: whoever
    stops the process for a while stops those who use them too.

    `now_us` gives microseconds of a clock that does not go back, `wall` Unix seconds, for the calendar.
    """

    def __init__(self, now_us: Callable[[], int], wall: Callable[[], float]) -> None:
        self._now_us = now_us
        self._wall = wall
        self._ledger = Ledger(lease_ttl_us=None)
        self._forgot_us = now_us()

    async def acquire(self, ask: Ask) -> Granted | Refused:
        return self._ledger.acquire(ask, self._now_us(), month_at(int(self._wall() * US_PER_SECOND)))

    async def extend(
        self, lease_id: str, accounts: tuple[Account, ...], output_tokens_min: int, output_tokens_max: int
    ) -> int:
        return self._ledger.extend(lease_id, accounts, output_tokens_min, output_tokens_max, self._now_us())

    async def settle(self, lease_id: str, used: Used) -> bool:
        return self._ledger.settle(lease_id, used, self._now_us())

    async def renew(self, seen: Mapping[str, Used]) -> None:
        now_us = self._now_us()
        self._ledger.renew(seen, now_us)
        if now_us - self._forgot_us >= FORGET_EVERY_US:
            self._forgot_us = now_us
            self._ledger.forget_idle(now_us)

    async def outstanding(self, accounts: Sequence[str]) -> Mapping[str, int]:
        return {account: self._ledger.outstanding(account) for account in accounts}

    async def seed_spent(self, account: str, month: str, nanos: int) -> None:
        self._ledger.seed_spent(account, month, nanos)
