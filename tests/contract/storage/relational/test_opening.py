"""URLs, files and drivers."""

import sqlite3
import stat
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from forebay.administration.kinds import KEYS, TENANTS
from forebay.core.errors import ConfigurationError, StoreUnavailable
from forebay.storage.relational.database import sqlite_url
from forebay.storage.relational.store import open_configuration_store
from tests.contract.storage.relational.resources import ACTOR, key, tenant


@pytest.mark.parametrize(
    "url",
    ["", "nonsense", "mysql://a/b", "sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite:///a?mode=ro", "http://a"],
)
def test_a_url_that_cannot_be_used_is_told_what_can(url: str) -> None:
    with pytest.raises(ConfigurationError, match="sqlite:///"):
        open_configuration_store(url)


def test_no_message_has_the_password() -> None:
    store = open_configuration_store("postgresql://someone:hush-hush@127.0.0.1:1/none")
    try:
        with pytest.raises(StoreUnavailable) as away:
            store.change_number()
        assert "hush" not in away.value.detail
        assert "127.0.0.1" in away.value.detail
    finally:
        store.close()


def test_only_its_owner_can_read_the_files(tmp_path: Path) -> None:
    directory = tmp_path / "not" / "there"
    store = open_configuration_store(f"sqlite:///{directory}/configuration.db")
    try:
        store.migrate()
        store.create(TENANTS, tenant(), **ACTOR)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}
    finally:
        store.close()
    assert "configuration.db" in modes
    assert "configuration.db-wal" in modes
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_a_file_s_name_may_have_any_characters(tmp_path: Path) -> None:
    path = tmp_path / "a b%20c#d?e=ü" / "100%.db"
    store = open_configuration_store(sqlite_url(path))
    try:
        store.migrate()
    finally:
        store.close()
    assert path.exists()
    assert [entry.name for entry in tmp_path.iterdir()] == [path.parent.name]


def test_a_fault_s_report_has_no_values_of_the_row(tmp_path: Path) -> None:
    """What a log of the whole chain of errors would have."""
    url = sqlite_url(tmp_path / "db")
    store = open_configuration_store(url)
    try:
        store.migrate()
        store.create(TENANTS, tenant(), **ACTOR)
        with sqlite3.connect(tmp_path / "db") as connection:
            connection.execute("CREATE TRIGGER t BEFORE INSERT ON keys BEGIN INSERT INTO nowhere VALUES (1); END")
        with pytest.raises(StoreUnavailable) as failed:
            store.create(KEYS, key(), **ACTOR)
        report = "".join(traceback.format_exception(failed.value))
        assert key().hash not in report
    finally:
        store.close()


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "below", tmp_path):
        with pytest.raises(ConfigurationError, match=r"storage\.database"):
            open_configuration_store(f"sqlite:///{path}")


def test_a_driver_that_is_not_installed_is_named() -> None:
    program = """
import sys
sys.modules["psycopg"] = None
from forebay.core.errors import ConfigurationError
from forebay.storage.relational.database import sqlite_url
from forebay.storage.relational.store import open_configuration_store
try:
    open_configuration_store("postgresql://127.0.0.1/x")
except ConfigurationError as error:
    print(error.detail)
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "forebay[postgres]" in said.stdout
