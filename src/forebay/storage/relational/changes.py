"""The audit log, which numbers every change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, insert, select, update

from forebay.administration.store import AUDIT_FILTERS, AuditAction, AuditEntry
from forebay.core.errors import InvalidRequest
from forebay.storage.relational.tables import AUDIT_LOG, CHANGE_COUNT


@dataclass(frozen=True, slots=True)
class Author:
    """Who changes something, and when (Unix seconds)."""

    actor: str
    at: float


def last_number(connection: Connection) -> int:
    return connection.execute(select(CHANGE_COUNT.c.number)).scalar_one()


def lock(connection: Connection) -> None:
    """Be the only one to change anything until the transaction ends: what is read stays as it is, and the numbers have
    no gaps.
    """
    connection.execute(select(CHANGE_COUNT.c.number).with_for_update()).scalar_one()


def record(
    connection: Connection,
    author: Author,
    action: AuditAction,
    place: tuple[str, str],
    *,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
) -> None:
    """Write down one change of what is at `place` (the name of its kind, its id), under the lock."""
    kind, id_ = place
    number = last_number(connection) + 1
    connection.execute(update(CHANGE_COUNT).values(number=number))
    entry = {"number": number, "at": author.at, "actor": author.actor, "action": action, "kind": kind, "id": id_}
    connection.execute(insert(AUDIT_LOG).values(**entry, before=before, after=after))


def entries(
    connection: Connection, *, before: int | None, limit: int, where: Mapping[str, str]
) -> Sequence[AuditEntry]:
    query = select(AUDIT_LOG).order_by(AUDIT_LOG.c.number.desc()).limit(limit)
    if before is not None:
        query = query.where(AUDIT_LOG.c.number < before)
    for field, value in where.items():
        if field not in AUDIT_FILTERS:
            raise InvalidRequest(
                f"The audit log cannot be searched by {field!r}; it can by {', '.join(AUDIT_FILTERS)}."
            )
        query = query.where(AUDIT_LOG.c[field] == value)
    return [AuditEntry(**row) for row in connection.execute(query).mappings()]
