"""Deletes what is older than it may get."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import date, timedelta

import structlog

from forebay.core.calendar import day_of
from forebay.core.errors import StoreUnavailable
from forebay.storage.content.places import CONTENT, REPLAYS, remove_folder
from forebay.storage.objects.store import ObjectStore
from forebay.tenancy.resources import Tenant

AT_ONCE = 20
"""How many are deleted in one go of a thread, which cannot be stopped."""

logger = structlog.get_logger(__name__)

TenantsNow = Callable[[], Awaitable[Iterable[Tenant]]]
"""All tenants as they are when it is called, not as they were. Raises StoreUnavailable; then nothing is deleted."""


def expired_days(names: Iterable[str], now: float, retention_days: int) -> list[str]:
    """Those of the folders' `names` whose days ended at least `retention_days` ago. Names that are no day never do."""
    last = day_of(now) - timedelta(days=retention_days)
    return [name for name in names if (day := _day(name)) is not None and day < last]


class Retention:
    """Sweeps at its start and every `interval_s` seconds. Several gateways may do so: what is gone is gone.

    Content goes by its tenant's `log_retention_days`, whether or not the tenant still opts in. Answers for repeats go
    after `answers_ttl_s`, and at once where the tenant does not have them kept any more. Of a tenant that does not
    exist, all goes at once. `unix_time` gives seconds.
    """

    def __init__(
        self,
        objects: ObjectStore,
        tenants: TenantsNow,
        *,
        answers_ttl_s: float,
        interval_s: float,
        unix_time: Callable[[], float],
    ) -> None:
        self._objects = objects
        self._tenants = tenants
        self._answers_ttl_s = answers_ttl_s
        self._interval_s = interval_s
        self._unix_time = unix_time

    async def run(self) -> None:
        """Until cancelled, whatever the stores do."""
        while True:
            try:
                await self.sweep(self._unix_time())
            except StoreUnavailable as error:
                logger.warning("retention not enforced; it is tried again", detail=error.detail, in_s=self._interval_s)
            except Exception as error:
                # A fault that nobody foresaw must not be the last sweep.
                logger.error("retention not enforced; it is tried again", error=repr(error), in_s=self._interval_s)
            await asyncio.sleep(self._interval_s)

    async def sweep(self, now: float) -> int:
        """Delete what has expired at `now` (Unix seconds); how many objects that were. A tenant whose objects cannot be
        deleted is logged and does not hold up the others. Raises StoreUnavailable.
        """
        logged, replayed = await self._folders(CONTENT), await self._folders(REPLAYS)
        # Asked for after the listing: whoever has a folder by then exists by then, if it still does.
        tenants = {tenant.id: tenant for tenant in await self._tenants()}
        deleted = 0
        for name in logged:
            deleted += await self._each(name, self._sweep_content(name, tenants.get(name), now))
        for name in replayed:
            deleted += await self._each(name, self._sweep_answers(name, tenants.get(name), now))
        if deleted:
            logger.info("content deleted after its retention", objects=deleted)
        return deleted

    async def forget(self, tenant_id: str) -> int:
        """Delete all that is kept of a tenant; how many objects that were. Raises StoreUnavailable."""
        deleted = await self._delete_folder(f"{CONTENT}/{tenant_id}")
        return deleted + await self._delete_folder(f"{REPLAYS}/{tenant_id}")

    async def _each(self, tenant_id: str, work: Awaitable[int]) -> int:
        try:
            return await work
        except StoreUnavailable as error:
            logger.warning("retention not enforced; it is tried again", tenant=tenant_id, detail=error.detail)
            return 0

    async def _sweep_content(self, name: str, tenant: Tenant | None, now: float) -> int:
        folder = f"{CONTENT}/{name}"
        if tenant is None:
            return await self._delete_folder(folder)
        deleted = 0
        for day in expired_days(await self._folders(folder), now, tenant.log_retention_days):
            deleted += await self._delete_folder(f"{folder}/{day}")
        return deleted

    async def _sweep_answers(self, name: str, tenant: Tenant | None, now: float) -> int:
        folder = f"{REPLAYS}/{name}"
        if tenant is None or not tenant.replay_outputs:
            return await self._delete_folder(folder)
        found = await asyncio.to_thread(self._objects.below, folder)
        expired = [one.path for one in found if one.modified_at + self._answers_ttl_s <= now]
        await self._delete(expired)
        return len(expired)

    async def _delete_folder(self, folder: str) -> int:
        found = [one.path for one in await asyncio.to_thread(self._objects.below, folder)]
        await self._delete(found)
        parents = {parent for path in found for parent in _folders_between(folder, path)} | {folder}
        for emptied in sorted(parents, key=len, reverse=True):
            await asyncio.to_thread(remove_folder, self._objects, emptied)
        return len(found)

    async def _delete(self, paths: Sequence[str]) -> None:
        for start in range(0, len(paths), AT_ONCE):
            await asyncio.to_thread(self._objects.delete, paths[start : start + AT_ONCE])

    async def _folders(self, prefix: str) -> list[str]:
        return await asyncio.to_thread(self._objects.folders, prefix)


def _folders_between(folder: str, path: str) -> list[str]:
    """The folders from `folder` down to the object at `path`."""
    names = path.removeprefix(f"{folder}/").split("/")[:-1]
    return [f"{folder}/{'/'.join(names[: depth + 1])}" for depth in range(len(names))]


def _day(name: str) -> date | None:
    try:
        day = date.fromisoformat(name)
    except ValueError:
        return None
    return day if day.isoformat() == name else None
