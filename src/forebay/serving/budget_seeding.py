"""Tells the counters what the books say was spent this month: they may be new, and so may a budget."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from forebay.core.calendar import month_of
from forebay.core.errors import ForebayError
from forebay.core.outage import Outage
from forebay.metering.report import Spent
from forebay.tenancy.reservation.lease import ReservationStore
from forebay.tenancy.resources import Quota

EVERY_S = 2.0
"""How often it is looked for budgets that are new."""
AGAIN_S = 30.0
"""How often all are seeded: for so long, counters that have lost their memory may let a budget be spent again."""


def spent_under(quota: Quota, rows: Iterable[Spent]) -> int:
    """Nano-dollars that count against the budget of `quota`."""
    return sum(
        row.nanos
        for row in rows
        if row.tenant == quota.tenant and quota.alias in {None, row.alias} and quota.key in {None, row.key}
    )


class BudgetSeeding:
    """Seeds each budget when it is first seen, and all of them again and again: the counters may forget, and what was
    recovered after a crash they may have got less of. Where they know of more, that counts.
    """

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
        self._seeded: dict[tuple[str, str], float] = {}
        """(Quota, month) → when, in Unix seconds."""
        self._outage = Outage("budgets not seeded", "budgets are seeded again")

    def seed_again(self) -> None:
        """The books have more than the counters may have been told: seed all, the next time."""
        # A new one: what is being seeded now may have been read before.
        self._seeded = {}

    async def seed(self) -> None:
        """Those that are due. Raises StoreUnavailable."""
        now = self._unix_time()
        month = month_of(now)
        seeded = self._seeded = {known: at for known, at in self._seeded.items() if 0 <= now - at < AGAIN_S}
        due = [
            quota
            for quota in self._quotas()
            if quota.monthly_budget_usd is not None and (quota.id, month) not in seeded
        ]
        if not due:
            return
        rows = await self._spent(month)
        for quota in due:
            await self._reservations.seed_spent(quota.id, month, spent_under(quota, rows))
            seeded[quota.id, month] = now

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.try_to_seed()
            await asyncio.sleep(EVERY_S)

    async def try_to_seed(self) -> None:
        """Those that are due, if that can be done now."""
        try:
            await self.seed()
        except ForebayError as error:
            self._outage.begins(detail=error.detail)
        else:
            self._outage.ends()
