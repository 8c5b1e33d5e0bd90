"""The commands that work on the database itself."""

from pathlib import Path

import pytest

from forebay.administration.kinds import TENANTS
from forebay.storage.relational.store import open_configuration_store
from forebay.tenancy.resources import Tenant
from tests.contract.cli.conftest import Cli


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a configuration, whose database has a tenant."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FOREBAY_CONFIG", raising=False)
    (tmp_path / "forebay.toml").write_text('data_dir = "data"\n')
    return tmp_path


def put_tenant(url: str) -> None:
    store = open_configuration_store(url)
    try:
        store.create(TENANTS, Tenant(id="acme"), actor="test", at=0.0)
    finally:
        store.close()


def has_tenant(url: str) -> bool:
    store = open_configuration_store(url)
    try:
        return store.get(TENANTS, "acme") is not None
    finally:
        store.close()


def test_backup_and_restore(forebay: Cli, here: Path) -> None:
    assert forebay("db", "migrate").code == 0
    configured = f"sqlite:///{here / 'data' / 'forebay.db'}"
    put_tenant(configured)
    saved = forebay("db", "backup", "saved.gz")
    assert saved.code == 0, saved.err
    assert "saved.gz" in saved.out

    elsewhere = f"sqlite:///{here / 'elsewhere.db'}"
    restored = forebay("db", "restore", "saved.gz", "--database", elsewhere)
    assert restored.code == 0, restored.err
    assert has_tenant(elsewhere)

    refused = forebay("db", "restore", "saved.gz")
    assert refused.code != 0
    assert "holds a configuration already" in refused.err
    assert forebay("db", "restore", "saved.gz", "--force").code == 0


def test_what_is_no_backup(forebay: Cli, here: Path) -> None:
    (here / "no.gz").write_text("no")
    ran = forebay("db", "restore", "no.gz")
    assert ran.code != 0
    assert "no.gz" in ran.err


def test_force_says_what_must_be_done(forebay: Cli, here: Path) -> None:
    assert forebay("db", "migrate").code == 0
    assert forebay("db", "backup", "saved.gz").code == 0
    ran = forebay("db", "restore", "saved.gz", "--force")
    assert ran.code == 0, ran.err
    assert "audit log" in ran.err
    assert "must be restarted" in ran.err


def test_what_fails_leaves_no_database_behind(forebay: Cli, here: Path) -> None:
    assert forebay("db", "migrate").code == 0
    assert forebay("db", "backup", "saved.gz").code == 0
    whole = (here / "saved.gz").read_bytes()
    (here / "cut.gz").write_bytes(whole[:-30])
    new = here / "new" / "deep" / "forebay.db"
    for arguments in (("backup", "other.gz"), ("restore", "missing.gz"), ("restore", "cut.gz")):
        ran = forebay("db", *arguments, "--database", f"sqlite:///{new}")
        assert ran.code == 78, ran.err
    assert not (here / "new").exists()
    assert not (here / "other.gz").exists()
