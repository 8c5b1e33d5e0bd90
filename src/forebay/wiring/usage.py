"""Usage: the log that is written first, the warehouse that it goes to, and the books that are read."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial

from forebay.config.loading import LoadedConfig
from forebay.core.clock import Clock
from forebay.core.units import MIB
from forebay.storage.objects.store import ObjectStore
from forebay.storage.usage.carrying import carry
from forebay.storage.usage.duck import Duck
from forebay.storage.usage.local_log import LocalUsageLog
from forebay.storage.usage.nats import open_stream
from forebay.storage.usage.partitions import Partitions
from forebay.storage.usage.shipping import Shipper
from forebay.storage.usage.upkeep import Upkeep
from forebay.storage.usage.warehouse import Warehouse
from forebay.wiring.loops import running


@dataclass(frozen=True, slots=True)
class Usage:
    """Written to and read from."""

    log: LocalUsageLog
    books: Warehouse


@asynccontextmanager
async def open_usage(
    loaded: LoadedConfig, objects: ObjectStore, clock: Clock, unix_time: Callable[[], float]
) -> AsyncGenerator[Usage]:
    """Raises StoreUnavailable."""
    settings = loaded.config.metering
    root, scratch = loaded.data_dir / "usage" / "log", loaded.data_dir / "usage" / "scratch"
    with closing(Duck(scratch, settings.query_memory_mb)) as duck:
        partitions = Partitions(objects, scratch, settings.cache_mb * MIB)
        async with LocalUsageLog(root, settings, clock) as log:
            if settings.carrier == "nats":
                shipping = partial(carry, partial(open_stream, settings), log, partitions, duck, settings)
            else:
                shipping = Shipper(log, partitions, duck).run
            upkeep = Upkeep(partitions, duck, settings.retention_days, unix_time)
            with closing(Warehouse(partitions, duck, root, scratch)) as books:
                async with running(shipping, upkeep.run):
                    yield Usage(log, books)
