"""A database that another process has locked: those who only read go on."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from forebay.administration.administration import THREADS, Administration
from forebay.administration.kinds import TENANTS
from forebay.api.admin import read_fields
from forebay.storage.relational.store import open_configuration_store


def test_reads_wait_for_no_write(tmp_path: Path) -> None:
    store = open_configuration_store(f"sqlite:///{tmp_path / 'x.db'}")
    store.migrate()

    async def nothing() -> None: ...

    async def run() -> None:
        administration = Administration(
            store, known_aliases=lambda: (), known_models=lambda: (), unix_time=lambda: 1.0, changed=nothing
        )
        with closing(administration), closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as other:
            await administration.create(TENANTS, read_fields(b'{"id": "t"}'), actor="a")
            other.execute("BEGIN IMMEDIATE")
            async with asyncio.TaskGroup() as tasks:
                writes = [
                    tasks.create_task(administration.create(TENANTS, read_fields(b'{"id": "t%d"}' % n), actor="a"))
                    for n in range(3 * THREADS)
                ]
                await asyncio.sleep(0)
                try:
                    page = await administration.page(TENANTS, after=None, limit=10, where={})
                    one = await administration.get(TENANTS, "t")
                    audit = await administration.audit(before=None, limit=10, where={})
                    assert ([row["id"] for row in page.rows], one.row["id"], len(audit.entries)) == (["t"], "t", 1)
                    assert not any(write.done() for write in writes)
                finally:
                    other.execute("ROLLBACK")
            assert store.change_number() == 1 + len(writes)

    with closing(store):
        asyncio.run(asyncio.wait_for(run(), 60))
