"""What operators do with the configuration: reads, and changes that count at once in this gateway."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog

from forebay.administration.conditions import ANYHOW, Condition
from forebay.administration.editor import Edit, Editor, Written, absent
from forebay.administration.kinds import KEYS, TENANTS, Kind
from forebay.administration.rows import row
from forebay.administration.rules import Known
from forebay.administration.store import AuditEntry, ConfigurationStore, Stored
from forebay.administration.threads import Threads
from forebay.api.admin import Fields
from forebay.core.errors import ForebayError, StoreUnavailable

THREADS = 4
PATIENCE_S = 10.0
FORGET_S = 10.0
"""How long the deletion of a tenant waits until what was kept of it is deleted too."""

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Page:
    """Rows in the order of ids, and whether there are more beyond them."""

    rows: Sequence[Mapping[str, Any]]
    has_more: bool


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Entries, newest first, and whether there are older ones."""

    entries: Sequence[AuditEntry]
    has_more: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A resource as it is told, its revision, and whether it was not there before."""

    row: Mapping[str, Any]
    revision: int
    created: bool = False


class Administration:
    """Reads and changes one store, in a few threads: those that read never wait for those that write. To be closed.

    `known_aliases` and `known_models` (pools) are the names that resources may refer to; `unix_time` gives seconds;
    `changed` is awaited after each change, so that this gateway goes by it before the answer; `forgotten` is
    awaited with the id of a tenant that was deleted, to delete what is kept of it elsewhere. All methods raise
    StoreUnavailable where the database cannot be reached, and then nothing is changed.
    """

    def __init__(
        self,
        store: ConfigurationStore,
        *,
        known_aliases: Callable[[], Collection[str]],
        known_models: Callable[[], Collection[str]],
        unix_time: Callable[[], float],
        changed: Callable[[], Awaitable[None]],
        forgotten: Callable[[str], Awaitable[object]] | None = None,
    ) -> None:
        self._store = store
        self._editor = Editor(store)
        self._known_aliases = known_aliases
        self._known_models = known_models
        self._unix_time = unix_time
        self._changed = changed
        self._forgotten = forgotten
        self._reading = Threads(THREADS, PATIENCE_S, "admin-read")
        self._writing = Threads(THREADS, PATIENCE_S, "admin-write")

    def close(self) -> None:
        """After the last call."""
        self._reading.close()
        self._writing.close()

    async def page(self, kind: Kind[Any], *, after: str | None, limit: int, where: Mapping[str, str]) -> Page:
        """Those beyond the id `after`, of which each field of `where` is so."""

        def read() -> Page:
            found = self._store.page(kind, after=after, limit=limit + 1, where=where)
            shown = found[:limit]
            last_used = self._last_used(kind, shown)
            return Page([row(kind, stored, last_used) for stored in shown], len(found) > limit)

        return await self._reading.run(read)

    async def get(self, kind: Kind[Any], id_: str) -> Answer:
        """Raises ResourceNotFound."""

        def read() -> Answer:
            stored = self._store.get(kind, id_)
            if stored is None:
                raise absent(kind, id_)
            return _told(kind, Written(stored=stored), self._last_used(kind, [stored]))

        return await self._reading.run(read)

    async def create(self, kind: Kind[Any], fields: Fields, *, actor: str) -> Answer:
        """Raises InvalidRequest, Conflict."""
        return await self._change(kind, partial(self._editor.create, kind, fields, self._edit(actor)))

    async def put(
        self, kind: Kind[Any], id_: str, fields: Fields, *, actor: str, condition: Condition = ANYHOW
    ) -> Answer:
        """The whole resource, created where it is not there, if its kind is so.

        Raises InvalidRequest, ResourceNotFound, PreconditionFailed, Conflict.
        """
        return await self._change(kind, partial(self._editor.put, kind, id_, fields, self._edit(actor, condition)))

    async def patch(
        self, kind: Kind[Any], id_: str, patch: Fields, *, actor: str, condition: Condition = ANYHOW
    ) -> Answer:
        """A JSON merge patch. Raises InvalidRequest, ResourceNotFound, PreconditionFailed, Conflict."""
        return await self._change(kind, partial(self._editor.patch, kind, id_, patch, self._edit(actor, condition)))

    async def rotate(self, id_: str, overlap_s: float, *, actor: str, condition: Condition = ANYHOW) -> Answer:
        """A new secret for a key; the old one works for `overlap_s` more.

        Raises ResourceNotFound, PreconditionFailed, Conflict.
        """
        return await self._change(KEYS, partial(self._editor.rotate, id_, overlap_s, self._edit(actor, condition)))

    async def delete(self, kind: Kind[Any], id_: str, *, actor: str, condition: Condition = ANYHOW) -> None:
        """Raises ResourceNotFound, PreconditionFailed, Conflict."""
        await self._writing.run(partial(self._editor.delete, kind, id_, self._edit(actor, condition)))
        await self._tell()
        if kind is TENANTS and self._forgotten is not None:
            await self._forget(id_, self._forgotten)

    async def audit(self, *, before: int | None, limit: int, where: Mapping[str, str]) -> AuditPage:
        """The changes with a lower number than `before`. `where`: `kind` (a kind's name), `id`, `actor`."""
        found = await self._reading.run(lambda: self._store.audit(before=before, limit=limit + 1, where=where))
        return AuditPage(found[:limit], len(found) > limit)

    async def _change(self, kind: Kind[Any], change: Callable[[], Written]) -> Answer:
        answer = await self._writing.run(lambda: self._answer_or_less(kind, change()))
        await self._tell()
        return answer

    async def _tell(self) -> None:
        """The change is made: that this gateway sees it a little later is no reason to say that it failed."""
        try:
            await self._changed()
        except StoreUnavailable as error:
            logger.warning("a change of the configuration is not yet seen here", detail=error.detail)

    async def _forget(self, tenant: str, forgotten: Callable[[str], Awaitable[object]]) -> None:
        """The tenant is deleted: that something of it is kept a little longer is no reason to say that it is not."""
        try:
            async with asyncio.timeout(FORGET_S):
                await forgotten(tenant)
        except Exception as error:
            said = error.detail if isinstance(error, ForebayError) else repr(error)
            logger.warning("what is kept of a deleted tenant is not deleted yet", tenant=tenant, error=said)

    def _answer_or_less(self, kind: Kind[Any], written: Written) -> Answer:
        """What was written is told even where it cannot be read when a key was last used."""
        try:
            last_used = self._last_used(kind, [written.stored])
        except StoreUnavailable:
            last_used = {}
        return _told(kind, written, last_used)

    def _last_used(self, kind: Kind[Any], rows: Sequence[Stored[Any]]) -> Mapping[str, float]:
        return self._store.key_use([stored.value.id for stored in rows]) if kind is KEYS and rows else {}

    def _edit(self, actor: str, condition: Condition = ANYHOW) -> Edit:
        known = Known(frozenset(self._known_aliases()), frozenset(self._known_models()))
        return Edit(actor=actor, at=self._unix_time(), known=known, condition=condition)


def _told(kind: Kind[Any], written: Written, last_used: Mapping[str, float]) -> Answer:
    told = row(kind, written.stored, last_used)
    if written.secret is not None:
        told["secret"] = written.secret
    return Answer(row=told, revision=written.stored.revision, created=written.created)
