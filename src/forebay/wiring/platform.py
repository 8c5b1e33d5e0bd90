"""The platform in one process, joined from its parts."""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from litestar import Litestar

from forebay.catalog.catalog import Catalog
from forebay.config.loading import LoadedConfig
from forebay.core.clock import SystemClock
from forebay.core.units import MIB
from forebay.fleet.driver import PoolDriver
from forebay.fleet.drivers.local import LocalDriver, LocalPool
from forebay.fleet.drivers.remote import RemoteDriver
from forebay.fleet.fleet import Fleet, PoolPlan
from forebay.fleet.replica import Endpoint
from forebay.fleet.settings import PoolSettings
from forebay.fleet.upstream import UpstreamClient
from forebay.gateway.app import create_app
from forebay.gateway.door import Door
from forebay.gateway.metrics import GatewayMetrics
from forebay.gateway.parts import GatewayParts
from forebay.serving.inference import InferenceService
from forebay.tenancy.authenticator import Authenticator, FixedKeys, StoredKey
from forebay.tenancy.keys import key_hash, key_id, load_or_create_key
from forebay.tenancy.principal import Principal
from forebay.web.body import BodyLimits


@dataclass(frozen=True, slots=True)
class Platform:
    """The platform in one process, not yet serving."""

    app: Litestar
    fleet: Fleet
    door: Door


@asynccontextmanager
async def open_platform(loaded: LoadedConfig, api_key: str) -> AsyncGenerator[Platform]:
    """Everything that the settings describe, with `api_key` as the default tenant's key."""
    config, clock = loaded.config, SystemClock()
    async with UpstreamClient(config.fleet) as replicas:
        plans = [_plan(name, pool, loaded) for name, pool in config.pools.items()]
        fleet = Fleet(plans, replicas, config.fleet, clock)
        catalog, door = Catalog(config.resolved_aliases()), Door()
        parts = GatewayParts(
            authenticator=Authenticator(FixedKeys([_stored_key(loaded, api_key)])),
            catalog=catalog,
            service=InferenceService(catalog, fleet, replicas),
            pools=fleet.pools(),
            metrics=GatewayMetrics(fleet.pools(), clock),
            door=door,
            body_limits=BodyLimits(int(config.gateway.max_body_mb * MIB), config.gateway.body_timeout_s),
            created=int(time.time()),
        )
        yield Platform(create_app(parts), fleet, door)


def default_api_key(loaded: LoadedConfig) -> str:
    """The configured key, else the one kept in the data directory, which is made where it is not there."""
    return loaded.config.tenancy.api_key or load_or_create_key(loaded.data_dir)


def remote_endpoint(name: str, pool: PoolSettings) -> Endpoint:
    """How the server of a pool with a `url` is called."""
    assert pool.url is not None, "only a pool with a url is elsewhere"
    base_url = pool.url.rstrip("/")
    knows_more = pool.engine in {"forebay", "vllm"}
    return Endpoint(
        base_url=base_url,
        model=pool.upstream_model or name,
        api_key=pool.api_key,
        takes_priority=knows_more,
        health_url=base_url.removesuffix("/v1") + "/health" if knows_more else base_url + "/models",
    )


def _plan(name: str, pool: PoolSettings, loaded: LoadedConfig) -> PoolPlan:
    driver: PoolDriver
    if pool.model is None:
        driver = RemoteDriver(remote_endpoint(name, pool))
    else:
        local = LocalPool(
            model=pool.model,
            served_model_name=name,
            engine=pool.engine_settings,
            cache_dir=loaded.cache_dir,
            data_dir=loaded.data_dir,
            environment=loaded.environment,
        )
        driver = LocalDriver(local, loaded.config.fleet)
    exact = pool.model is not None or pool.engine == "forebay"
    return PoolPlan(name=name, driver=driver, replicas=pool.replicas, exact_fields=exact)


def _stored_key(loaded: LoadedConfig, api_key: str) -> StoredKey:
    tenancy = loaded.config.tenancy
    principal = Principal(tenancy.default_tenant, key_id(api_key), frozenset(tenancy.allowed_classes))
    return StoredKey(key_hash(api_key), principal)
