"""The platform in one process, joined from its parts."""

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass

from litestar import Litestar
from litestar.handlers import HTTPRouteHandler

from forebay.administration.administration import Administration
from forebay.catalog.catalog import Catalog, ModelVersion
from forebay.config.loading import LoadedConfig
from forebay.core.clock import SystemClock
from forebay.core.units import MIB
from forebay.fleet.fleet import Fleet
from forebay.fleet.upstream import UpstreamClient
from forebay.gateway.admin.routes import admin_routes
from forebay.gateway.app import create_app
from forebay.gateway.door import Door
from forebay.gateway.metrics import GatewayMetrics
from forebay.gateway.parts import GatewayParts
from forebay.gateway.usage import usage_routes
from forebay.serving.repeats import Repeats
from forebay.tenancy.keys import load_or_create_key
from forebay.web.body import BodyLimits
from forebay.wiring.pools import model_version, pool_plan
from forebay.wiring.prompt_counters import PromptCounters
from forebay.wiring.serving import open_serving
from forebay.wiring.stores import Stores, open_stores


@dataclass(frozen=True, slots=True)
class Platform:
    """The platform in one process, not yet serving. `prompt_counters` are to be loaded once the models are there."""

    app: Litestar
    fleet: Fleet
    door: Door
    repeats: Repeats
    prompt_counters: PromptCounters

    async def drain(self, timeout_s: float) -> None:
        """Let nobody in, and end after `timeout_s` at most what runs for several callers; the server ends the rest."""
        await self.door.drain(timeout_s)
        self.repeats.stop()


@asynccontextmanager
async def open_platform(loaded: LoadedConfig, api_key: str) -> AsyncGenerator[Platform]:
    """Everything that the settings describe, with `api_key` as the operator's key."""
    config, clock, unix_time = loaded.config, SystemClock(), time.time
    async with (
        UpstreamClient(config.fleet) as replicas,
        open_stores(loaded, api_key, clock, unix_time) as stores,
    ):
        catalog, door = Catalog(config.resolved_aliases(), _versions(loaded)), Door()
        plans = [pool_plan(name, pool, loaded) for name, pool in config.pools.items()]
        fleet = Fleet(plans, replicas, config.fleet, clock)
        prompt_counters = PromptCounters(loaded)
        metrics = GatewayMetrics(fleet.pools(), clock)
        metrics.watch_configuration(lambda: stores.configured.snapshots.age_s)
        async with (
            open_serving(
                loaded,
                stores,
                catalog=catalog,
                replicas=replicas,
                prompt_counters=prompt_counters,
                metrics=metrics.usage,
                stopping=lambda: door.over,
                clock=clock,
                unix_time=unix_time,
            ) as repeats,
            _operators_routes(loaded, stores, unix_time) as operators_routes,
        ):
            parts = GatewayParts(
                authenticator=stores.configured.authenticator,
                catalog=catalog,
                service=repeats,
                pools=fleet.pools(),
                metrics=metrics,
                door=door,
                body_limits=BodyLimits(int(config.gateway.max_body_mb * MIB), config.gateway.body_timeout_s),
                configuration=lambda: stores.configured.snapshots.current,
                clock=clock,
                unix_time=unix_time,
                usage_log_fails=lambda: stores.usage.log.fails,
                created=int(unix_time()),
            )
            app = create_app(parts, operators_routes)
            yield Platform(app, fleet, door, repeats, prompt_counters)


@asynccontextmanager
async def _operators_routes(
    loaded: LoadedConfig, stores: Stores, unix_time: Callable[[], float]
) -> AsyncGenerator[list[HTTPRouteHandler]]:
    configured = stores.configured
    administration = Administration(
        configured.store,
        known_aliases=loaded.config.resolved_aliases,
        known_models=lambda: loaded.config.pools,
        unix_time=unix_time,
        changed=configured.snapshots.refresh,
        forgotten=stores.content.retention.forget,
    )
    with closing(administration):
        yield [
            *admin_routes(configured.authenticator, administration),
            *usage_routes(configured.authenticator, stores.usage.books, unix_time),
        ]


def _versions(loaded: LoadedConfig) -> dict[str, ModelVersion]:
    return {name: model_version(name, pool) for name, pool in loaded.config.pools.items()}


def default_api_key(loaded: LoadedConfig) -> str:
    """The configured key, else the one kept in the data directory, which is made where it is not there."""
    return loaded.config.tenancy.api_key or load_or_create_key(loaded.data_dir)
