"""What is kept of tenants that opted in to that."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from forebay.administration.store import ConfigurationStore
from forebay.config.loading import LoadedConfig
from forebay.storage.content.answer_shelf import ObjectAnswerShelf
from forebay.storage.content.content_log import ObjectContentLog
from forebay.storage.content.redaction import load_redactor
from forebay.storage.content.retention import Retention
from forebay.storage.objects.store import ObjectStore
from forebay.tenancy.resources import Tenant
from forebay.wiring.loops import running


@dataclass(frozen=True, slots=True)
class KeptContent:
    """Prompts and outputs, and whole answers for repeats; and what deletes them."""

    log: ObjectContentLog
    shelf: ObjectAnswerShelf
    retention: Retention


@asynccontextmanager
async def open_content(
    loaded: LoadedConfig, objects: ObjectStore, store: ConfigurationStore, unix_time: Callable[[], float]
) -> AsyncGenerator[KeptContent]:
    """Raises ConfigurationError where the redactor cannot be found."""
    settings, ttl_s = loaded.config.content, loaded.config.tenancy.idempotency_ttl_s
    redactor = None if settings.redactor is None else load_redactor(settings.redactor)
    retention = Retention(
        objects,
        lambda: _tenants(store),
        answers_ttl_s=ttl_s,
        interval_s=settings.sweep_interval_s,
        unix_time=unix_time,
    )
    log = ObjectContentLog(objects, settings, redactor)
    async with log.running(), running(retention.run):
        yield KeptContent(log, ObjectAnswerShelf(objects, ttl_s, unix_time), retention)


async def _tenants(store: ConfigurationStore) -> Sequence[Tenant]:
    contents = await asyncio.to_thread(store.contents)
    return contents.tenants
