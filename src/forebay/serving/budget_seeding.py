"""Tells the counters what the books say was spent this month: they may be new, and so may a budget."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Protocol

import structlog

from forebay.core.errors import StoreUnavailable
from forebay.tenancy.reservation.lease import ReservationStore
from forebay.tenancy.reservation.month import US_PER_SECOND, month_at
from forebay.tenancy.resources import Quota

EVERY_S = 2.0

logger = structlog.get_logger(__name__)


class Spent(Protocol):
    """What one key of a tenant has spent on one alias in a month."""

    @property
    def tenant(self) -> str: ...
    @property
    def alias(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def nanos(self) -> int: ...


def spent_under(quota: Quota, rows: Iterable[Spent]) -> int:
    """Nano-dollars that count against the budget of `quota`."""
    return sum(
        row.nanos
        for row in rows
        if row.tenant == quota.tenant and quota.alias in {None, row.alias} and quota.key in {None, row.key}
    )


class BudgetSeeding:
    """Seeds each budget once a month: when it is first seen, which is at the start for those that are there."""

    def __init__(
        self,
        quotas: Callable[[], Iterable[Quota]],
        spent: Callable[[str], Awaitable[Sequence[Spent]]],
        reservations: ReservationStore,
        unix_time: Callable[[], float],
    ) -> None:
        self._quotas = quotas
        self._spent = spent
        self._reservations = reservations
        self._unix_time = unix_time
        self._seeded: set[tuple[str, str]] = set()

    async def seed(self) -> None:
        """Those that were not seeded yet. Raises StoreUnavailable."""
        month = month_at(int(self._unix_time() * US_PER_SECOND)).name
        due = [
            quota
            for quota in self._quotas()
            if quota.monthly_budget_usd is not None and (quota.id, month) not in self._seeded
        ]
        if not due:
            return
        rows = await self._spent(month)
        for quota in due:
            await self._reservations.seed_spent(quota.id, month, spent_under(quota, rows))
            self._seeded.add((quota.id, month))

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.seed()
            except StoreUnavailable as error:
                logger.warning("budgets not seeded", detail=error.detail)
            await asyncio.sleep(EVERY_S)
