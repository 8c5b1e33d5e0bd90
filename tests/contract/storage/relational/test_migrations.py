"""The way up and down, with data in the tables, and what stands in the way."""

import subprocess
import sys
from collections.abc import Callable

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text

from forebay.administration.kinds import KEYS, PRICES, TENANTS
from forebay.core.errors import ConfigurationError, StoreUnavailable
from forebay.storage.relational import schema
from forebay.storage.relational.database import Database
from forebay.storage.relational.store import RelationalStore, open_configuration_store
from forebay.storage.relational.tables import METADATA
from tests.contract.storage.relational.resources import ACTOR, FULL, everything, fill, tenant


def version_of(url: str) -> str:
    database = Database(url)
    try:
        with database.reading() as connection:
            return schema.version_of(connection)
    finally:
        database.close()


def execute(url: str, statement: str) -> None:
    database = Database(url)
    try:
        with database.writing() as connection:
            connection.execute(text(statement))
    finally:
        database.close()


@pytest.mark.filterwarnings("ignore:.*expression-based index")
def test_the_migrations_lead_to_the_tables_that_the_code_uses(url: str, store: RelationalStore) -> None:
    assert version_of(url) == schema.newest()
    database = Database(url)
    try:
        with database.writing() as connection:
            context = MigrationContext.configure(connection, opts={"version_table": schema.VERSION_TABLE})
            assert compare_metadata(context, METADATA) == []
    finally:
        database.close()


def test_migrating_again_changes_nothing(store: RelationalStore) -> None:
    fill(store)
    before = everything(store)
    store.migrate()
    assert everything(store) == before


def test_one_by_one_down_and_up_with_data(url: str, store: RelationalStore) -> None:
    """What a step drops is what its migration says; all else is there afterwards."""
    fill(store)
    store.note_key_use({"k1": 5.0})
    before = everything(store)
    schema.migrate(url, "0001")
    assert version_of(url) == "0001"
    store.migrate()
    after = everything(store)
    assert (after["prices"], after["use"]) == ([], {})
    assert after | {"prices": before["prices"], "use": before["use"]} == before
    for kind, value in FULL:
        if kind is PRICES:
            store.create(kind, value, **ACTOR)
    schema.migrate(url, "0001")
    schema.migrate(url, schema.NOTHING)
    assert version_of(url) == schema.NOTHING
    schema.migrate(url, "0001")
    schema.migrate(url, "0002")
    assert store.change_number() == 0
    fill(store)
    assert [stored.value.id for stored in store.page(KEYS, after=None, limit=9, where={})] == ["k1", "k2"]


def test_a_step_that_fails_leaves_the_version_before(url: str) -> None:
    """A table of ours is in the way of the second step: nothing of either is there afterwards."""
    execute(url, "CREATE TABLE key_use (other INTEGER)")
    with pytest.raises(StoreUnavailable):
        schema.migrate(url)
    assert version_of(url) == schema.NOTHING
    execute(url, "DROP TABLE key_use")
    schema.migrate(url)
    assert version_of(url) == schema.newest()


def test_several_gateways_that_start_at_once(url: str) -> None:
    """Real processes, which begin together once each is ready."""
    program = """
import sys
from forebay.storage.relational import schema
schema.newest()
print("ready", flush=True)
sys.stdin.readline()
schema.migrate(sys.argv[1])
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    starts = [subprocess.Popen([sys.executable, "-c", program, url], text=True, **pipes) for _ in range(3)]
    try:
        for start in starts:
            assert start.stdout is not None
            assert start.stdout.readline() == "ready\n"
        for start in starts:
            assert start.stdin is not None
            start.stdin.write("go\n")
            start.stdin.flush()
        said = [start.communicate(timeout=100)[1] for start in starts]
    finally:
        for start in starts:
            start.kill()
            start.wait()
    assert [start.returncode for start in starts] == [0] * 3, said
    store = open_configuration_store(url)
    try:
        assert version_of(url) == schema.newest()
        store.create(TENANTS, tenant(), **ACTOR)
        assert store.change_number() == 1
    finally:
        store.close()


def test_a_database_of_a_newer_version_is_left_alone(url: str, store: RelationalStore) -> None:
    fill(store)
    execute(url, f"UPDATE {schema.VERSION_TABLE} SET version_num = '9000'")
    with pytest.raises(ConfigurationError, match=r"'9000'.*newer"):
        store.migrate()
    assert version_of(url) == "9000"


def test_before_it_is_migrated_a_database_cannot_be_used(url: str) -> None:
    store = open_configuration_store(url)
    try:
        for attempt in (store.change_number, store.contents, lambda: store.create(TENANTS, tenant(), **ACTOR)):
            with pytest.raises(StoreUnavailable):
                attempt()
    finally:
        store.close()


def test_two_kinds_of_database_have_the_same_versions(new_database: Callable[[str], str]) -> None:
    urls = [new_database(kind) for kind in ("sqlite", "postgres")]
    for url in urls:
        schema.migrate(url)
    assert {version_of(url) for url in urls} == {schema.newest()}
