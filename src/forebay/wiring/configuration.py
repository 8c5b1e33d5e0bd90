"""What operators configure: its database, and the snapshot that requests are served by."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from forebay.administration.kinds import TENANTS
from forebay.administration.snapshots import Snapshots
from forebay.config.loading import LoadedConfig
from forebay.core.clock import Clock
from forebay.core.errors import Conflict
from forebay.storage.relational.store import RelationalStore, open_configuration_store
from forebay.tenancy.authenticator import Authenticator, operator_key
from forebay.tenancy.resources import Tenant
from forebay.wiring.database import database_url
from forebay.wiring.key_use import note_key_use
from forebay.wiring.loops import running

BY_THE_CONFIGURATION = "configuration"
"""Who made what was made at the first start, in the audit log."""


@dataclass(frozen=True, slots=True)
class OperatedConfiguration:
    """Joined, and kept fresh."""

    store: RelationalStore
    snapshots: Snapshots
    authenticator: Authenticator


@asynccontextmanager
async def open_configuration(
    loaded: LoadedConfig, api_key: str, clock: Clock, unix_time: Callable[[], float]
) -> AsyncGenerator[OperatedConfiguration]:
    """With tables of the newest version, and the default tenant. Raises ConfigurationError and StoreUnavailable."""
    tenancy = loaded.config.tenancy
    store = open_configuration_store(database_url(loaded.config.storage.database, loaded.data_dir))
    try:
        await asyncio.to_thread(_prepare, store, tenancy.default_tenant, loaded, unix_time())
        snapshots = Snapshots(store, clock, tenancy.refresh_s)
        await snapshots.refresh()
        operator = operator_key(api_key, tenancy.default_tenant)
        authenticator = Authenticator(lambda: snapshots.current.directory, operator, unix_time)
        async with running(snapshots.run, partial(note_key_use, store, authenticator)):
            yield OperatedConfiguration(store, snapshots, authenticator)
    finally:
        store.close()


def _prepare(store: RelationalStore, default_tenant: str, loaded: LoadedConfig, now: float) -> None:
    store.migrate()
    if store.get(TENANTS, default_tenant) is None:
        highest = loaded.config.tenancy.highest_class
        default = "batch" if highest == "batch" else "standard"
        tenant = Tenant(id=default_tenant, default_class=default, highest_class=highest)
        try:
            store.create(TENANTS, tenant, actor=BY_THE_CONFIGURATION, at=now)
        except Conflict:
            # Another gateway starts at the same time.
            return
