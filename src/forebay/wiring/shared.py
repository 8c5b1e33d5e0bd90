"""Whether what gateways share can be reached."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

from forebay.config.loading import LoadedConfig
from forebay.core.errors import ConfigurationError, StoreUnavailable
from forebay.metering.settings import MeteringSettings
from forebay.storage.counters.valkey import ValkeyReservations
from forebay.storage.relational.store import open_configuration_store
from forebay.storage.usage.nats import open_stream
from forebay.wiring.objects import open_platform_objects


async def shared_problems(loaded: LoadedConfig) -> AsyncGenerator[tuple[str, str | None]]:
    """Each setting that names a server, and why that cannot be used; None where it can."""
    storage = loaded.config.storage
    if (database := storage.database) is not None and database.startswith("postgresql"):
        yield "storage.database", await _problem(lambda: _reach_database(database))
    if (counters := storage.counters) is not None:
        yield "storage.counters", await _problem(lambda: _reach_counters(counters, loaded.config.tenancy.lease_ttl_s))
    if (objects := storage.objects) is not None and "://" in objects:
        yield "storage.objects", await _problem(lambda: _reach_objects(loaded))
    if loaded.config.metering.carrier == "nats":
        yield "metering.nats_url", await _problem(lambda: _reach_stream(loaded.config.metering))


async def _problem(reach: Callable[[], Awaitable[None]]) -> str | None:
    try:
        await reach()
    except (ConfigurationError, StoreUnavailable) as error:
        return error.detail
    return None


async def _reach_database(url: str) -> None:
    store = open_configuration_store(url)
    try:
        await asyncio.to_thread(store.ping)
    finally:
        store.close()


async def _reach_counters(url: str, lease_ttl_s: float) -> None:
    async with ValkeyReservations(url, lease_ttl_s) as counters:
        await counters.outstanding(["nobody"])


async def _reach_objects(loaded: LoadedConfig) -> None:
    objects = open_platform_objects(loaded)
    await asyncio.to_thread(objects.folders, "")


async def _reach_stream(settings: MeteringSettings) -> None:
    async with open_stream(settings):
        return
