"""Keeps the warehouse small in files, and as short as its retention."""

import asyncio
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from hashlib import sha256
from itertools import groupby

import duckdb
import structlog

from forebay.core.errors import StoreUnavailable
from forebay.storage.objects.store import StoredObject
from forebay.storage.usage.duck import Duck, parquet
from forebay.storage.usage.partitions import Partitions, day_in, unreadable

EVERY_S = 3600.0
SETTLED = timedelta(hours=2)
"""How long after its end a day's files are merged: most that were late are there by then."""
logger = structlog.get_logger(__name__)


class Upkeep:
    """Merges the files of each day that is over, and deletes days beyond the retention. Any number of gateways may do
    so at once: what is merged is put before its sources are deleted, and an id that is there twice counts once.
    """

    def __init__(
        self, partitions: Partitions, duck: Duck, retention_days: int | None, unix_time: Callable[[], float]
    ) -> None:
        self._partitions = partitions
        self._duck = duck
        self._retention_days = retention_days
        self._unix_time = unix_time

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await asyncio.to_thread(self.once)
            except StoreUnavailable as error:
                logger.warning("upkeep of the usage warehouse failed", detail=error.detail)
            await asyncio.sleep(EVERY_S)

    def once(self) -> None:
        """Blocking. Raises StoreUnavailable."""
        now = datetime.fromtimestamp(self._unix_time(), UTC)
        oldest = None if self._retention_days is None else now.date() - timedelta(days=self._retention_days)
        for day, listed in groupby(self._partitions.all(), key=lambda part: day_in(part.path)):
            parts = list(listed)
            if oldest is not None and day < oldest:
                self._partitions.delete(parts)
            elif day < (now - SETTLED).date() and len(parts) > 1:
                self._merge(day, parts)

    def _merge(self, day: date, parts: list[StoredObject]) -> None:
        files = self._partitions.files(parts)
        if len(files) < len(parts):
            # Another gateway is merging them.
            return
        # The same sources give the same name: two that merge them at once write one file.
        name = "merged-" + sha256("\n".join(part.path for part in parts).encode()).hexdigest()[:32]
        try:
            self._partitions.put_query(self._duck, f"SELECT * FROM {parquet(files)}", day, name)
        except duckdb.IOException as error:
            if all(file.exists() for file in files):
                raise unreadable(error) from error
            logger.info("files of usage left to another gateway that has merged them", day=str(day))
            return
        except (duckdb.Error, OSError) as error:
            raise unreadable(error) from error
        self._partitions.delete(parts)
