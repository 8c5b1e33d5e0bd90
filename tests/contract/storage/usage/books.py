"""A log, a warehouse and what lies between them, on given object storage."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from forebay.core.clock import SystemClock
from forebay.metering.settings import MeteringSettings
from forebay.metering.usage import OpenedUsage, UsageRecord
from forebay.storage.objects.store import ObjectStore
from forebay.storage.usage.duck import Duck
from forebay.storage.usage.local_log import LocalUsageLog
from forebay.storage.usage.partitions import Partitions
from forebay.storage.usage.shipping import Shipper
from forebay.storage.usage.warehouse import Warehouse

QUICK = MeteringSettings(sync_delay_s=0.005, seen_every_s=0.005, segment_mb=0.001)
"""Each record seals its segment."""
FOREVER = (0.0, 4e9)


@dataclass(frozen=True, slots=True)
class Books:
    log: LocalUsageLog
    partitions: Partitions
    duck: Duck
    warehouse: Warehouse
    shipper: Shipper

    async def book(self, usage: OpenedUsage, record: UsageRecord) -> None:
        await self.log.open(usage)
        await self.log.close(record)

    async def ids(self) -> dict[str, int]:
        """How often each id, which the request's tag `n` repeats, is in the books."""
        rows = await self.warehouse.query(*FOREVER, ["tag:n"], {})
        return {str(row.group["tag:n"]): row.requests for row in rows}


@asynccontextmanager
async def open_books(
    root: Path, objects: ObjectStore, settings: MeteringSettings = QUICK, cache_bytes: int = 10**9
) -> AsyncGenerator[Books]:
    """As the parts are joined in a gateway; nothing is shipped by itself."""
    scratch = root / "scratch"
    duck = Duck(scratch, 256)
    try:
        partitions = Partitions(objects, scratch, cache_bytes)
        warehouse = Warehouse(partitions, duck, root / "log", scratch)
        try:
            async with LocalUsageLog(root / "log", settings, SystemClock()) as log:
                yield Books(log, partitions, duck, warehouse, Shipper(log, partitions, duck))
        finally:
            warehouse.close()
    finally:
        duck.close()
