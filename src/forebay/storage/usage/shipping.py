"""From the local log into the warehouse, without a broker between."""

import asyncio
from pathlib import Path

from forebay.core.errors import StoreUnavailable
from forebay.core.outage import Outage
from forebay.storage.usage.duck import Duck
from forebay.storage.usage.local_log import LocalUsageLog
from forebay.storage.usage.partitions import Partitions, unreadable
from forebay.storage.usage.tail import closed_records

LOOK_EVERY_S = 2.0
RETRY_S = 15.0


class Shipper:
    """Puts each sealed segment into the warehouse, then drops it. A crash between the two does it again, by the same
    name, so that nothing is there twice.
    """

    def __init__(self, log: LocalUsageLog, partitions: Partitions, duck: Duck) -> None:
        self._log = log
        self._partitions = partitions
        self._duck = duck

    async def run(self) -> None:
        """Until cancelled."""
        outage = Outage("usage not shipped", "usage is shipped again")
        while True:
            try:
                await self.ship()
            except StoreUnavailable as error:
                outage.begins(segments=len(self._log.sealed()), detail=error.detail)
                await asyncio.sleep(RETRY_S)
            else:
                outage.ends()
                await asyncio.sleep(LOOK_EVERY_S)

    async def ship(self) -> None:
        """All segments that are sealed now. Raises StoreUnavailable; what is left comes next time."""
        for segment in self._log.sealed():
            await asyncio.to_thread(self._put, segment)
            await self._log.drop(segment)

    def _put(self, segment: Path) -> None:
        try:
            records = closed_records(segment.read_bytes())
        except OSError as error:
            raise unreadable(error) from error
        self._partitions.put_records(self._duck, records, segment.stem)
