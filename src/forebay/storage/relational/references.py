"""Which resources name which others."""

from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Connection, func, select

from forebay.administration.kinds import Kind
from forebay.core.errors import Conflict, ResourceNotFound
from forebay.storage.relational.rows import kind_named, table_of

MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Reference:
    """The `field` of a `kind` has the id of one of the kind `names`."""

    kind: str
    field: str
    names: str


REFERENCES = (
    Reference("keys", "tenant", "tenants"),
    Reference("quotas", "tenant", "tenants"),
    Reference("quotas", "key", "keys"),
)


def require_named_there(connection: Connection, kind: Kind[Any], value: msgspec.Struct) -> None:
    """Raises ResourceNotFound where `value` names what is not there, or a key that is another tenant's."""
    for reference in REFERENCES:
        if reference.kind == kind.name and (id_ := getattr(value, reference.field)) is not None:
            _require_there(connection, kind_named(reference.names), id_, tenant=getattr(value, "tenant", None))


def require_unnamed(connection: Connection, kind: Kind[Any], id_: str) -> None:
    """Raises Conflict, which tells who names it."""
    namers = [
        said
        for reference in REFERENCES
        if reference.names == kind.name
        if (said := _namers(connection, reference, id_))
    ]
    if namers:
        raise Conflict(f"The {kind.noun} {id_!r} is still named by {' and '.join(namers)}. Delete those first.")


def _require_there(connection: Connection, kind: Kind[Any], id_: str, tenant: str | None) -> None:
    table = table_of(kind)
    query = select(table.c.id).where(table.c.id == id_)
    owned = "tenant" in table.c
    if owned:
        query = query.where(table.c.tenant == tenant)
    if connection.execute(query).first() is None:
        whose = f"The tenant {tenant!r} has no" if owned else "There is no"
        raise ResourceNotFound(f"{whose} {kind.noun} {id_!r}. Create it first.", param=kind.noun)


def _namers(connection: Connection, reference: Reference, id_: str) -> str:
    kind = kind_named(reference.kind)
    table = table_of(kind)
    names_it = table.c[reference.field] == id_
    count = connection.execute(select(func.count()).select_from(table).where(names_it)).scalar_one()
    if not count:
        return ""
    ids = connection.execute(select(table.c.id).where(names_it).order_by(table.c.id).limit(MOST_NAMED)).scalars()
    more = ", …" if count > MOST_NAMED else ""
    return f"{count} {kind.noun}{'s' * (count > 1)} ({', '.join(ids)}{more})"
