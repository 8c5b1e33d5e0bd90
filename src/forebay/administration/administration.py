"""What operators do with the configuration: reads, and changes that count at once in this gateway."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import structlog

from forebay.administration.conditions import ANYHOW, Condition
from forebay.administration.editor import Edit, Editor, Written
from forebay.administration.kinds import KEYS, Kind
from forebay.administration.rows import row
from forebay.administration.rules import Known
from forebay.administration.store import AuditEntry, ConfigurationStore, Stored
from forebay.administration.threads import Threads
from forebay.api.admin import Fields
from forebay.core.errors import ResourceNotFound, StoreUnavailable

T = TypeVar("T")

THREADS = 4
PATIENCE_S = 10.0

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
    """Reads and changes one store, in a few threads.

    `known_aliases` and `known_models` (pools) are the names that resources may refer to; `wall` is Unix time; `changed`
    is awaited after each change, so that this gateway goes by it before the answer. All methods raise StoreUnavailable
    where the database cannot be reached, and then nothing is changed.
    """

    def __init__(
        self,
        store: ConfigurationStore,
        known_aliases: Callable[[], Collection[str]],
        known_models: Callable[[], Collection[str]],
        wall: Callable[[], float],
        changed: Callable[[], Awaitable[None]],
    ) -> None:
        self._store = store
        self._editor = Editor(store)
        self._known_aliases = known_aliases
        self._known_models = known_models
        self._wall = wall
        self._changed = changed
        self._threads = Threads(THREADS, PATIENCE_S)

    async def page(self, kind: Kind[Any], *, after: str | None, limit: int, where: Mapping[str, str]) -> Page:
        """Those beyond the id `after`, of which each field of `where` is so."""

        def read() -> Page:
            found = self._store.page(kind, after=after, limit=limit + 1, where=where)
            shown = found[:limit]
            last_used = self._last_used(kind, shown)
            return Page([row(kind, stored, last_used) for stored in shown], len(found) > limit)

        return await self._threads.run(read)

    async def get(self, kind: Kind[Any], id_: str) -> Answer:
        """Raises ResourceNotFound."""

        def read() -> Answer:
            stored = self._store.get(kind, id_)
            if stored is None:
                raise ResourceNotFound(
                    f"There is no {kind.noun} {id_[:200]}; GET /admin/v1/{kind.name} lists them.", param="id"
                )
            return _told(kind, Written(stored=stored), self._last_used(kind, [stored]))

        return await self._threads.run(read)

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
        await self._threads.run(partial(self._editor.delete, kind, id_, self._edit(actor, condition)))
        await self._tell()

    async def audit(self, *, before: int | None, limit: int, where: Mapping[str, str]) -> AuditPage:
        """The changes with a lower number than `before`. `where`: `kind` (a kind's name), `id`, `actor`."""
        found = await self._threads.run(lambda: self._store.audit(before=before, limit=limit + 1, where=where))
        return AuditPage(found[:limit], len(found) > limit)

    async def _change(self, kind: Kind[Any], change: Callable[[], Written]) -> Answer:
        answer = await self._threads.run(lambda: self._answer_or_less(kind, change()))
        await self._tell()
        return answer

    async def _tell(self) -> None:
        """The change is made: that this gateway sees it a little later is no reason to say that it failed."""
        try:
            await self._changed()
        except StoreUnavailable as error:
            logger.warning("a change of the configuration is not yet seen here", detail=error.detail)

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
        return Edit(actor=actor, at=self._wall(), known=known, condition=condition)


def _told(kind: Kind[Any], written: Written, last_used: Mapping[str, float]) -> Answer:
    told = row(kind, written.stored, last_used)
    if written.secret is not None:
        told["secret"] = written.secret
    return Answer(row=told, revision=written.stored.revision, created=written.created)
