"""The configuration's store over one database."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Connection, delete, insert, select, update

from forebay.administration.kinds import KEYS, PRICES, PROMPTS, QUOTAS, TENANTS, Kind
from forebay.administration.store import AuditAction, AuditEntry, Contents, Stored
from forebay.core.errors import Conflict, InvalidRequest, PreconditionFailed, ResourceNotFound
from forebay.storage.relational import changes, key_use, schema
from forebay.storage.relational.changes import Author
from forebay.storage.relational.database import FOR_REQUESTS, Database, TimeLimits
from forebay.storage.relational.references import require_named_there, require_unnamed
from forebay.storage.relational.rows import REVISION, UPDATED_AT, columns_of, resource_of, stored_of, table_of, told

R = TypeVar("R", bound=msgspec.Struct)


def open_configuration_store(url: str, limits: TimeLimits = FOR_REQUESTS) -> "RelationalStore":
    """The store at `sqlite:///path` or `postgresql://…`. A server is not called yet.

    Raises ConfigurationError where the URL is wrong, the file cannot be made or the driver is not installed.
    """
    return RelationalStore(url, limits)


class RelationalStore:
    """See ConfigurationStore. Whoever changes something holds one lock until the end of its transaction."""

    def __init__(self, url: str, limits: TimeLimits) -> None:
        self._url = url
        self._database = Database(url, limits)

    def migrate(self) -> None:
        """Bring the tables to the newest version. Raises StoreUnavailable, and ConfigurationError where they are of a
        newer one than this code knows.
        """
        schema.migrate(self._url)

    def close(self) -> None:
        self._database.close()

    def ping(self) -> None:
        """Raises StoreUnavailable where the database does not answer, whether or not it has tables."""
        with self._database.reading() as connection:
            connection.execute(select(1))

    def change_number(self) -> int:
        with self._database.reading() as connection:
            return changes.last_number(connection)

    def contents(self) -> Contents:
        with self._database.reading() as connection:
            return Contents(
                change=changes.last_number(connection),
                tenants=_all(connection, TENANTS),
                keys=_all(connection, KEYS),
                quotas=_all(connection, QUOTAS),
                prices=_all(connection, PRICES),
                prompts=_all(connection, PROMPTS),
            )

    def get(self, kind: Kind[R], id_: str) -> Stored[R] | None:
        with self._database.reading() as connection:
            return _find(connection, kind, id_)

    def page(self, kind: Kind[R], *, after: str | None, limit: int, where: Mapping[str, str]) -> Sequence[Stored[R]]:
        """As the protocol says. Raises InvalidRequest for a `where` that the kind does not have."""
        table = table_of(kind)
        query = select(table).order_by(table.c.id).limit(limit)
        if after is not None:
            query = query.where(table.c.id > after)
        for field, value in where.items():
            if field not in kind.filters:
                raise InvalidRequest(
                    f"A {kind.noun} cannot be searched by {field!r}; it can by {', '.join(kind.filters) or 'nothing'}.",
                    param=field,
                )
            query = query.where(table.c[field] == value)
        with self._database.reading() as connection:
            return [stored_of(kind, _plain(row)) for row in connection.execute(query).mappings()]

    def create(self, kind: Kind[R], value: R, *, actor: str, at: float) -> Stored[R]:
        columns = columns_of(value)
        with self._changing() as connection:
            id_ = columns["id"]
            if _find(connection, kind, id_) is not None:
                raise Conflict(f"There is a {kind.noun} {id_!r} already.", param="id")
            require_named_there(connection, kind, value)
            connection.execute(insert(table_of(kind)).values(**columns, **{REVISION: 1, UPDATED_AT: at}))
            changes.record(
                connection, Author(actor, at), "create", (kind.name, id_), before=None, after=told(kind, value)
            )
            return _there(connection, kind, id_)

    def replace(
        self, kind: Kind[R], value: R, *, expected: int | None, actor: str, at: float, action: AuditAction = "replace"
    ) -> Stored[R]:
        columns = columns_of(value)
        table = table_of(kind)
        with self._changing() as connection:
            id_ = columns["id"]
            before = _expected(connection, kind, id_, expected)
            if before.value == value:
                return before
            require_named_there(connection, kind, value)
            written = {**columns, REVISION: before.revision + 1, UPDATED_AT: at}
            connection.execute(update(table).where(table.c.id == id_).values(**written))
            images = {"before": told(kind, before.value), "after": told(kind, value)}
            changes.record(connection, Author(actor, at), action, (kind.name, id_), **images)
            return _there(connection, kind, id_)

    def delete(self, kind: Kind[R], id_: str, *, expected: int | None, actor: str, at: float) -> None:
        table = table_of(kind)
        with self._changing() as connection:
            before = _expected(connection, kind, id_, expected)
            require_unnamed(connection, kind, id_)
            connection.execute(delete(table).where(table.c.id == id_))
            gone = told(kind, before.value)
            changes.record(connection, Author(actor, at), "delete", (kind.name, id_), before=gone, after=None)

    def audit(self, *, before: int | None, limit: int, where: Mapping[str, str]) -> Sequence[AuditEntry]:
        with self._database.reading() as connection:
            return changes.entries(connection, before=before, limit=limit, where=where)

    def note_key_use(self, last_used: Mapping[str, float]) -> None:
        if last_used:
            with self._database.writing() as connection:
                key_use.note(connection, last_used)

    def key_use(self, ids: Sequence[str]) -> Mapping[str, float]:
        with self._database.reading() as connection:
            return key_use.last_used(connection, ids)

    @contextmanager
    def _changing(self) -> Generator[Connection]:
        with self._database.writing() as connection:
            changes.lock(connection)
            yield connection


def _plain(row: Mapping[Any, Any]) -> Mapping[str, Any]:
    return {str(name): held for name, held in row.items()}


def _all(connection: Connection, kind: Kind[R]) -> list[R]:
    table = table_of(kind)
    rows = connection.execute(select(table).order_by(table.c.id)).mappings()
    return [resource_of(kind, _plain(row)) for row in rows]


def _find(connection: Connection, kind: Kind[R], id_: str) -> Stored[R] | None:
    table = table_of(kind)
    row = connection.execute(select(table).where(table.c.id == id_)).mappings().first()
    return None if row is None else stored_of(kind, _plain(row))


def _there(connection: Connection, kind: Kind[R], id_: str) -> Stored[R]:
    found = _find(connection, kind, id_)
    assert found is not None, "it was written just now"
    return found


def _expected(connection: Connection, kind: Kind[R], id_: str, revision: int | None) -> Stored[R]:
    found = _find(connection, kind, id_)
    if found is None:
        raise ResourceNotFound(f"There is no {kind.noun} {id_!r}.")
    if revision is not None and found.revision != revision:
        raise PreconditionFailed(
            f"The {kind.noun} {id_!r} is at revision {found.revision}, not {revision}: it was changed. Read it again."
        )
    return found
