"""Signs of life for the leases of the requests that run in this process."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Never

import structlog

from forebay.tenancy.reservation.lease import NOTHING_YET, ReservationStore, Used

BATCH = 256
"""Leases renewed by one call: few enough that none is long."""

logger = structlog.get_logger(__name__)


class Heartbeat:
    """Renews what is held, each with what it has used so far, every `interval_s`: a third of the leases' time to live,
    so that two may fail. Whoever starts the process runs `run` in a task of its own.
    """

    def __init__(self, store: ReservationStore, interval_s: float) -> None:
        self._store = store
        self._interval_s = interval_s
        self._held: dict[str, Used] = {}

    @contextmanager
    def hold(self, lease_id: str) -> Generator[None]:
        """Keep a lease that was acquired alive within the block; settle it after that."""
        self._held[lease_id] = NOTHING_YET
        try:
            yield
        finally:
            self._held.pop(lease_id, None)

    def seen(self, lease_id: str, used: Used) -> None:
        """What a lease has used so far. Of one that is not held it is forgotten."""
        if lease_id in self._held:
            self._held[lease_id] = used

    async def run(self) -> Never:
        """Until it is cancelled."""
        while True:
            await asyncio.sleep(self._interval_s)
            await self.beat()

    async def beat(self) -> None:
        """Renew all once. What cannot be renewed now is tried again the next time."""
        held = list(self._held.items())
        for start in range(0, max(1, len(held)), BATCH):
            try:
                # Also where nothing is held: a store has housekeeping to do.
                await self._store.renew(dict(held[start : start + BATCH]))
            except Exception as error:
                # The loop must outlive whatever happens: without it the leases of all requests expire.
                logger.warning("leases not renewed", leases=len(held[start : start + BATCH]), error=str(error))
