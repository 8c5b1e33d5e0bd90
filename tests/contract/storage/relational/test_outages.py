"""The database goes and comes back."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forebay.administration.kinds import TENANTS
from forebay.administration.snapshots import Snapshots
from forebay.core.clock import SystemClock
from forebay.core.errors import StoreUnavailable
from forebay.storage.relational.database import TimeLimits
from forebay.storage.relational.store import RelationalStore, open_configuration_store
from tests.contract.storage.relational.resources import ACTOR, everything, fill, tenant
from tests.support.servers.postgres import PostgresServer, postgres_server


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """One that these tests stop."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def on_server(own_server: PostgresServer) -> Iterator[RelationalStore]:
    store = open_configuration_store(own_server.new_database())
    try:
        store.migrate()
        yield store
    finally:
        store.close()


def test_a_server_that_was_stopped_is_used_again_at_once(
    own_server: PostgresServer, on_server: RelationalStore
) -> None:
    fill(on_server)
    before = everything(on_server)
    own_server.stop()
    try:
        for attempt in (
            on_server.change_number,
            on_server.contents,
            on_server.migrate,
            lambda: on_server.create(TENANTS, tenant("new"), **ACTOR),
            lambda: on_server.note_key_use({"k1": 1.0}),
        ):
            with pytest.raises(StoreUnavailable) as away:
                attempt()
            assert away.value.retry_after_s is not None
    finally:
        own_server.start()
    assert everything(on_server) == before
    on_server.create(TENANTS, tenant("new"), **ACTOR)
    own_server.stop()
    own_server.start()
    assert on_server.get(TENANTS, "new") is not None, "connections from before the restart are not used"


def test_a_server_that_hangs_is_given_up(own_server: PostgresServer) -> None:
    """A stopped process takes connections and acknowledges packets, but never answers."""
    held = open_configuration_store(own_server.new_database(), TimeLimits(statement_s=0.5, lock_s=0.5))
    try:
        held.migrate()
        held.change_number()
        backends = server_processes(own_server)
        for pid in backends:
            os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(StoreUnavailable):
                held.change_number()
        finally:
            for pid in backends:
                os.kill(pid, signal.SIGCONT)
        assert held.change_number() == 0
    finally:
        held.close()


def server_processes(server: PostgresServer) -> list[int]:
    listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    children = [int(pid) for pid, parent in map(str.split, listing.splitlines()) if int(parent) == server.pid]
    return [server.pid, *children]


def test_the_snapshot_goes_on_without_its_database(own_server: PostgresServer, on_server: RelationalStore) -> None:
    async def go_on() -> None:
        snapshots = Snapshots(on_server, SystemClock(), 0.05)
        await snapshots.refresh()
        async with asyncio.TaskGroup() as tasks:
            loop = tasks.create_task(snapshots.run())
            await asyncio.to_thread(own_server.stop)
            try:
                with pytest.raises(StoreUnavailable):
                    await snapshots.refresh()
                assert snapshots.current.directory.tenant("red") is not None
            finally:
                await asyncio.to_thread(own_server.start)
            await asyncio.to_thread(on_server.create, TENANTS, tenant("new"), **ACTOR)
            async with asyncio.timeout(30):
                while snapshots.current.directory.tenant("new") is None:  # noqa: ASYNC110 - of the loop itself
                    await asyncio.sleep(0.02)
            loop.cancel()

    fill(on_server)
    asyncio.run(go_on())


def test_nothing_acknowledged_is_lost_when_a_writer_is_killed(tmp_path: Path) -> None:
    """SQLite, kill -9 while it writes: what was acknowledged is there, and the log has no gap."""
    url = f"sqlite:///{tmp_path}/configuration.db"
    program = """
import sys
from itertools import count
from forebay.administration.kinds import TENANTS
from forebay.storage.relational.store import open_configuration_store
from forebay.tenancy.resources import Tenant
store = open_configuration_store(sys.argv[1])
store.migrate()
for number in count(store.change_number() + 1):
    store.create(TENANTS, Tenant(id=f"t{number}"), actor="a", at=0.0)
    print(number, flush=True)
"""
    acknowledged = 0
    for _ in range(2):
        with subprocess.Popen([sys.executable, "-c", program, url], stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            try:
                for _ in range(20):
                    acknowledged = int(writer.stdout.readline())
            finally:
                writer.kill()
            acknowledged = max([acknowledged, *(int(line) for line in writer.stdout if line.endswith("\n"))])
        store = open_configuration_store(url)
        try:
            there = store.change_number()
            assert there >= acknowledged
            log = store.audit(before=None, limit=10_000, where={})
            assert [entry.number for entry in log] == list(range(there, 0, -1))
            assert len(store.contents().tenants) == there
        finally:
            store.close()


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "db").write_bytes(b"not a database, though long enough to be taken for one" * 100)
    store = open_configuration_store(f"sqlite:///{tmp_path}/db")
    try:
        with pytest.raises(StoreUnavailable):
            store.migrate()
    finally:
        store.close()


def test_a_writer_that_does_not_end_is_waited_for_only_so_long(new_database: Callable[[str], str]) -> None:
    """SQLite's one write lock is held by another process, for ever."""
    url = new_database("sqlite")
    store = open_configuration_store(url, TimeLimits(statement_s=1.0, lock_s=0.5))
    store.migrate()
    program = """
import sqlite3, sys
c = sqlite3.connect(sys.argv[1], isolation_level=None)
c.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""
    path = url.removeprefix("sqlite:///")
    with subprocess.Popen(
        [sys.executable, "-c", program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            with pytest.raises(StoreUnavailable, match="locked"):
                store.create(TENANTS, tenant(), **ACTOR)
            assert store.change_number() == 0, "reading goes on"
        finally:
            holder.kill()
            store.close()
