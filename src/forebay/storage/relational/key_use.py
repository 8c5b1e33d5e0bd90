"""When keys were last used."""

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, select
from sqlalchemy.dialects import postgresql, sqlite

from forebay.storage.relational.tables import KEY_USE, KEYS

AT_ONCE = 500
"""Ids in one statement: databases limit how many parameters it may have."""


def note(connection: Connection, last_used: Mapping[str, float]) -> None:
    """Never goes back. Keys that are not there (any more) are left out."""
    for ids in _portions(sorted(last_used)):
        # Locked, in the one order, so that none is deleted meanwhile and two who note do not wait for each other.
        there = select(KEYS.c.id).where(KEYS.c.id.in_(ids)).order_by(KEYS.c.id)
        known = connection.execute(there.with_for_update(read=True, key_share=True)).scalars().all()
        if known:
            _keep(connection, [{"id": id_, "last_used_at": last_used[id_]} for id_ in known])


def last_used(connection: Connection, ids: Sequence[str]) -> Mapping[str, float]:
    found: dict[str, float] = {}
    for portion in _portions(ids):
        query = select(KEY_USE.c.id, KEY_USE.c.last_used_at).where(KEY_USE.c.id.in_(portion))
        found |= {row.id: row.last_used_at for row in connection.execute(query)}
    return found


def _keep(connection: Connection, rows: Sequence[Mapping[str, str | float]]) -> None:
    insert = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    statement = insert(KEY_USE).values(rows)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=[KEY_USE.c.id],
            set_={"last_used_at": statement.excluded.last_used_at},
            where=statement.excluded.last_used_at > KEY_USE.c.last_used_at,
        )
    )


def _portions(ids: Sequence[str]) -> Sequence[Sequence[str]]:
    return [ids[start : start + AT_ONCE] for start in range(0, len(ids), AT_ONCE)]
