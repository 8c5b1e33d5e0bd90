"""What serves inference requests, and what goes on beside it for as long as it does."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

from forebay.catalog.catalog import Catalog
from forebay.config.loading import LoadedConfig
from forebay.core.clock import Clock
from forebay.fleet.upstream import UpstreamClient
from forebay.metering.report import spent_in
from forebay.serving.admission import Admission
from forebay.serving.budget_seeding import BudgetSeeding
from forebay.serving.inference import InferenceService
from forebay.serving.metered_run import Books, RunObserver
from forebay.serving.recovery import Recovery
from forebay.serving.repeat_notes import RepeatNotes
from forebay.serving.repeats import Repeats
from forebay.serving.settler import Settler
from forebay.tenancy.reservation.expected import OutputLengths
from forebay.tenancy.reservation.heartbeat import Heartbeat
from forebay.wiring.loops import running
from forebay.wiring.pools import remote_endpoints
from forebay.wiring.prompt_counters import PromptCounters
from forebay.wiring.stores import Stores

HEARTBEATS_PER_LEASE = 3


@asynccontextmanager
async def open_serving(
    loaded: LoadedConfig,
    stores: Stores,
    *,
    catalog: Catalog,
    replicas: UpstreamClient,
    prompt_counters: PromptCounters,
    metrics: RunObserver,
    stopping: Callable[[], bool],
    clock: Clock,
    unix_time: Callable[[], float],
) -> AsyncGenerator[Repeats]:
    """Requests can be served within. What a process left open that died is known before the first is let in."""
    config, counters = loaded.config, stores.counters
    ttl_s = config.tenancy.idempotency_ttl_s
    notes = RepeatNotes(counters.repeats, ttl_s)
    books = _books(
        loaded, stores, prompt_counters=prompt_counters, observers=(notes, metrics), clock=clock, unix_time=unix_time
    )
    settler = Settler(replicas)
    service = InferenceService(catalog, replicas, books, settler, content=stores.content.log, stopping=stopping)
    repeats = Repeats(service.serve, counters.repeats, stores.content.shelf, ttl_s, unix_time)
    seeding = BudgetSeeding(
        lambda: stores.configured.snapshots.current.directory.quotas,
        lambda month: spent_in(stores.usage.books, month),
        counters.reservations,
        unix_time,
    )
    recovery = Recovery(
        stores.usage.log,
        replicas,
        endpoints=remote_endpoints(config.pools),
        unix_time=unix_time,
        notes=notes,
        reservations=counters.reservations,
        closed_some=seeding.seed_again,
    )
    if config.storage.counters is None:
        await notes.recall(await stores.usage.books.repeatable(unix_time() - ttl_s))
    await recovery.adopt()
    await seeding.try_to_seed()
    async with (
        settler.running(),
        repeats.running(),
        running(books.heartbeat.run, recovery.run, seeding.run),
    ):
        yield repeats


def _books(
    loaded: LoadedConfig,
    stores: Stores,
    *,
    prompt_counters: PromptCounters,
    observers: tuple[RunObserver, ...],
    clock: Clock,
    unix_time: Callable[[], float],
) -> Books:
    tenancy, reservations = loaded.config.tenancy, stores.counters.reservations
    lengths = OutputLengths(tenancy.expected_output_tokens)
    return Books(
        admission=Admission(
            lambda: stores.configured.snapshots.current, prompt_counters, reservations, lengths, unix_time
        ),
        reservations=reservations,
        heartbeat=Heartbeat(reservations, tenancy.lease_ttl_s / HEARTBEATS_PER_LEASE),
        log=stores.usage.log,
        observers=observers,
        clock=clock,
        unix_time=unix_time,
    )
