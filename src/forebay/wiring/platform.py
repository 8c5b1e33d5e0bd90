"""The platform in one process, joined from its parts."""

import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from litestar import Litestar

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
from forebay.metering.report import spent_in
from forebay.serving.admission import Admission
from forebay.serving.budget_seeding import BudgetSeeding
from forebay.serving.inference import InferenceService
from forebay.serving.metered_run import Books
from forebay.serving.recovery import Recovery
from forebay.serving.repeat_notes import RepeatNotes
from forebay.serving.repeats import Repeats
from forebay.serving.settler import Settler
from forebay.tenancy.keys import load_or_create_key
from forebay.tenancy.reservation.expected import OutputLengths
from forebay.tenancy.reservation.heartbeat import Heartbeat
from forebay.web.body import BodyLimits
from forebay.wiring.configuration import open_configuration
from forebay.wiring.content import open_content
from forebay.wiring.counters import open_counters
from forebay.wiring.loops import running
from forebay.wiring.objects import open_platform_objects
from forebay.wiring.pools import model_version, pool_plan, remote_endpoints
from forebay.wiring.prompt_counters import PromptCounters
from forebay.wiring.usage import open_usage

HEARTBEATS_PER_LEASE = 3


@dataclass(frozen=True, slots=True)
class Platform:
    """The platform in one process, not yet serving. `prompt_counters` are to be loaded once the models are there."""

    app: Litestar
    fleet: Fleet
    door: Door
    prompt_counters: PromptCounters


@asynccontextmanager
async def open_platform(loaded: LoadedConfig, api_key: str) -> AsyncGenerator[Platform]:
    """Everything that the settings describe, with `api_key` as the operator's key."""
    config, clock, unix_time = loaded.config, SystemClock(), time.time
    async with AsyncExitStack() as held:
        replicas = await held.enter_async_context(UpstreamClient(config.fleet))
        configured = await held.enter_async_context(open_configuration(loaded, api_key, clock, unix_time))
        objects = open_platform_objects(loaded)
        usage = await held.enter_async_context(open_usage(loaded, objects, clock, unix_time))
        counters = await held.enter_async_context(open_counters(loaded, clock, unix_time))
        content = await held.enter_async_context(open_content(loaded, objects, configured.store, unix_time))

        catalog, door = Catalog(config.resolved_aliases(), _versions(loaded)), Door()
        fleet = Fleet(
            [pool_plan(name, pool, loaded) for name, pool in config.pools.items()], replicas, config.fleet, clock
        )
        prompt_counters = PromptCounters(loaded)
        metrics = GatewayMetrics(fleet.pools(), clock)
        metrics.watch_configuration(lambda: configured.snapshots.age_s)

        heartbeat = Heartbeat(counters.reservations, config.tenancy.lease_ttl_s / HEARTBEATS_PER_LEASE)
        lengths = OutputLengths(config.tenancy.expected_output_tokens)
        notes = RepeatNotes(counters.repeats, config.tenancy.idempotency_ttl_s)
        books = Books(
            admission=Admission(
                lambda: configured.snapshots.current, prompt_counters, counters.reservations, lengths, unix_time
            ),
            reservations=counters.reservations,
            heartbeat=heartbeat,
            log=usage.log,
            lengths=lengths,
            observers=(notes, metrics),
            clock=clock,
            unix_time=unix_time,
        )
        settler = Settler(replicas)
        service = InferenceService(catalog, replicas, books, settler, content.log)
        repeats = Repeats(service.serve, counters.repeats, content.shelf, config.tenancy.idempotency_ttl_s, unix_time)
        seeding = BudgetSeeding(
            lambda: configured.snapshots.current.directory.quotas,
            lambda month: spent_in(usage.books, month),
            counters.reservations,
            unix_time,
        )
        recovery = Recovery(
            usage.log,
            replicas,
            endpoints=remote_endpoints(config.pools),
            unix_time=unix_time,
            notes=notes,
            reservations=counters.reservations,
            closed_some=seeding.seed_again,
        )
        parts = GatewayParts(
            authenticator=configured.authenticator,
            catalog=catalog,
            service=repeats,
            pools=fleet.pools(),
            metrics=metrics,
            door=door,
            body_limits=BodyLimits(int(config.gateway.max_body_mb * MIB), config.gateway.body_timeout_s),
            configuration=lambda: configured.snapshots.current,
            clock=clock,
            unix_time=unix_time,
            created=int(unix_time()),
        )
        administration = Administration(
            configured.store,
            known_aliases=config.resolved_aliases,
            known_models=lambda: config.pools,
            wall=unix_time,
            changed=configured.snapshots.refresh,
        )
        app = create_app(
            parts,
            [
                *admin_routes(configured.authenticator, administration),
                *usage_routes(configured.authenticator, usage.books, unix_time),
            ],
        )
        if config.storage.counters is None:
            await notes.recall(await usage.books.repeatable(unix_time() - config.tenancy.idempotency_ttl_s))
        # Before the first request is let in.
        await recovery.adopt()
        await seeding.try_to_seed()
        await held.enter_async_context(settler.running())
        await held.enter_async_context(repeats.running())
        await held.enter_async_context(running(heartbeat.run(), recovery.run(), seeding.run()))
        yield Platform(app, fleet, door, prompt_counters)


def _versions(loaded: LoadedConfig) -> dict[str, ModelVersion]:
    return {name: model_version(name, pool) for name, pool in loaded.config.pools.items()}


def default_api_key(loaded: LoadedConfig) -> str:
    """The configured key, else the one kept in the data directory, which is made where it is not there."""
    return loaded.config.tenancy.api_key or load_or_create_key(loaded.data_dir)
