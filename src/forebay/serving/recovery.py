"""Closes what a process left open that died."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import structlog

from forebay.core.errors import StoreUnavailable
from forebay.core.outage import Outage
from forebay.fleet.replica import Endpoint
from forebay.metering.closing import LOST_STATUS, closed, recovered
from forebay.metering.usage import OpenedUsage, TokenUsage, UsageRecord
from forebay.serving.repeat_notes import RepeatNotes
from forebay.serving.settler import UsageTeller
from forebay.tenancy.reservation.lease import ReservationStore, Used

logger = structlog.get_logger(__name__)

INTERVAL_S = 10.0


class LeftOpen(Protocol):
    """One request that was open; the usage that was last seen of it, and where it ran, where that is known."""

    @property
    def opened(self) -> OpenedUsage: ...
    @property
    def tokens(self) -> TokenUsage | None: ...
    @property
    def replica(self) -> str | None: ...


class InheritingLog(Protocol):
    """A usage log that takes over those of processes that have died."""

    async def adopt(self) -> None:
        """Look for more. Raises StoreUnavailable."""
        ...

    def recovered(self) -> Sequence[LeftOpen]:
        """Each once."""
        ...

    async def close(self, record: UsageRecord) -> None: ...


class Recovery:
    """Asks the replicas that outlived the process (`endpoints`, by pool) what its requests have used; else what was
    last seen counts. Calls `closed_some` when the books have more.
    """

    def __init__(
        self,
        log: InheritingLog,
        teller: UsageTeller,
        *,
        endpoints: Mapping[str, Endpoint],
        unix_time: Callable[[], float],
        notes: RepeatNotes,
        reservations: ReservationStore,
        closed_some: Callable[[], None],
    ) -> None:
        self._log = log
        self._teller = teller
        self._endpoints = endpoints
        self._unix_time = unix_time
        self._notes = notes
        self._reservations = reservations
        self._closed_some = closed_some
        self._left: list[LeftOpen] = []
        self._outage = Outage(
            "usage logs of processes that have ended cannot be read", "usage logs of ended processes can be read again"
        )

    async def run(self) -> None:
        """Until cancelled: at once, and then every few seconds, as others may die that share the disk."""
        while True:
            await self.adopt()
            await self._close_all()
            await asyncio.sleep(INTERVAL_S)

    async def adopt(self) -> None:
        """Find what was left open, without closing it yet: from here on none of it is run again."""
        try:
            await self._log.adopt()
        except StoreUnavailable as error:
            self._outage.begins(detail=error.detail)
        else:
            self._outage.ends()
        found = self._log.recovered()
        self._left.extend(found)
        await _try_to_note(self._notes.interrupted([left.opened for left in found]))

    async def _close_all(self) -> None:
        count = len(self._left)
        for _ in range(count):
            left = self._left.pop(0)
            try:
                await self._close(left)
            except BaseException:
                # Its turn comes again, after all others.
                self._left.append(left)
                raise
        if count:
            self._closed_some()

    async def _close(self, left: LeftOpen) -> None:
        record = await self._record(left)
        await self._settle(record)
        await self._log.close(record)
        await _try_to_note(self._notes.recall([record]))

    async def _settle(self, record: UsageRecord) -> None:
        """Its lease, where that has not expired yet: with what was used, and before the books have it; see
        `MeteredRun.end`.
        """
        used = Used(tokens=record.prompt_tokens + record.output_tokens, nanos=record.cost_nanos)
        try:
            await self._reservations.settle(record.id, used)
        except StoreUnavailable as error:
            logger.warning("lease of a request that was cut off not settled", id=record.id, detail=error.detail)

    async def _record(self, left: LeftOpen) -> UsageRecord:
        endpoint = self._endpoints.get(left.opened.pool)
        told = await self._teller.usage_of(endpoint, left.opened.id) if endpoint is not None else None
        now = self._unix_time()
        if told is None:
            return recovered(left.opened, left.tokens, left.replica, now)
        return closed(
            left.opened,
            told,
            ended_at=now,
            status="recovered",
            http_status=LOST_STATUS,
            counted="engine",
            replica=left.replica,
        )


async def _try_to_note(noting: Awaitable[None]) -> None:
    try:
        await noting
    except StoreUnavailable as error:
        logger.warning("idempotency keys of requests that were cut off not noted", detail=error.detail)
