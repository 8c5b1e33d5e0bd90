"""From one database into a file, and from there into any other."""

import gzip
import stat
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from forebay.administration.kinds import TENANTS
from forebay.core.errors import ConfigurationError, Conflict
from forebay.storage.relational import schema
from forebay.storage.relational.backup import backup, restore
from forebay.storage.relational.store import RelationalStore, open_configuration_store
from tests.contract.storage.relational.resources import ACTOR, FULL, everything, fill, tenant

KINDS = ("sqlite", "postgres")
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda whole: whole[: len(whole) // 2],
    "a line less": lambda whole: gzip.compress(b"".join(gzip.decompress(whole).splitlines(keepends=True)[:-2])),
    "without its end": lambda whole: gzip.compress(b"".join(gzip.decompress(whole).splitlines(keepends=True)[:-1])),
    "a row twice": lambda whole: gzip.compress(_second_line_twice(gzip.decompress(whole))),
    "another table": lambda whole: gzip.compress(gzip.decompress(whole).replace(b'"table":"quotas"', b'"table":"x"')),
    "another format": lambda whole: gzip.compress(gzip.decompress(whole).replace(b"forebay-conf", b"other-conf")),
    "not JSON": lambda whole: gzip.compress(gzip.decompress(whole).replace(b'{"table":"keys"', b"{table:")),
    "not gzip": gzip.decompress,
    "nothing": lambda _whole: b"",
}


def _second_line_twice(lines: bytes) -> bytes:
    header, first, *rest = lines.splitlines(keepends=True)
    return b"".join([header, first, first, *rest])


def contents_of(url: str) -> dict[str, object]:
    store = open_configuration_store(url)
    try:
        return everything(store)
    finally:
        store.close()


@pytest.mark.parametrize(("source", "target"), list(product(KINDS, KINDS)))
def test_it_comes_back_the_same(new_database: Callable[[str], str], tmp_path: Path, source: str, target: str) -> None:
    from_url, to_url, file = new_database(source), new_database(target), tmp_path / "backup"
    store = open_configuration_store(from_url)
    try:
        store.migrate()
        fill(store)
        store.note_key_use({"k1": 5.5})
        rows = backup(from_url, file)
        store.create(TENANTS, tenant("later"), **ACTOR)
        store.delete(TENANTS, "later", expected=None, **ACTOR)
    finally:
        store.close()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert restore(to_url, file) == rows
    there = contents_of(to_url)
    assert there["number"] == len(FULL)
    expected = contents_of(from_url)
    log = expected["audit"]
    assert isinstance(log, list)
    assert there == expected | {"audit": log[2:], "number": len(FULL)}
    again = tmp_path / "again"
    backup(to_url, again)
    assert gzip.decompress(again.read_bytes()) == gzip.decompress(file.read_bytes())
    onward = open_configuration_store(to_url)
    try:
        onward.create(TENANTS, tenant("new"), **ACTOR)
        assert onward.change_number() == len(FULL) + 1
    finally:
        onward.close()


def test_what_is_there_is_only_replaced_when_forced(url: str, store: RelationalStore, tmp_path: Path) -> None:
    fill(store)
    whole, file = everything(store), tmp_path / "backup"
    backup(url, file)
    store.create(TENANTS, tenant("later"), **ACTOR)
    with pytest.raises(Conflict, match="holds a configuration already"):
        restore(url, file)
    assert store.get(TENANTS, "later") is not None
    restore(url, file, force=True)
    assert everything(store) == whole


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_changes_nothing(url: str, store: RelationalStore, tmp_path: Path, damage: str) -> None:
    fill(store)
    whole, file = everything(store), tmp_path / "backup"
    backup(url, file)
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    with pytest.raises((ConfigurationError, Conflict)):
        restore(url, file, force=True)
    assert everything(store) == whole


def test_a_backup_of_an_older_version_is_brought_up(url: str, store: RelationalStore, tmp_path: Path) -> None:
    fill(store)
    schema.migrate(url, "0001")
    backup(url, tmp_path / "old")
    store.migrate()
    expected = everything(store)
    restore(url, tmp_path / "old", force=True)
    assert everything(store) == expected


def test_a_backup_of_a_newer_version_is_refused(url: str, store: RelationalStore, tmp_path: Path) -> None:
    file = tmp_path / "backup"
    backup(url, file)
    file.write_bytes(
        gzip.compress(gzip.decompress(file.read_bytes()).replace(b'"version":"0002"', b'"version":"9000"'))
    )
    with pytest.raises(ConfigurationError, match="newer"):
        restore(url, file, force=True)


def test_what_cannot_be_backed_up_says_so(url: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nothing in it"):
        backup(url, tmp_path / "backup")
    schema.migrate(url)
    with pytest.raises(ConfigurationError, match="cannot be written"):
        backup(url, tmp_path / "not" / "there")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        restore(url, tmp_path / "backup")
    assert [path.name for path in tmp_path.iterdir() if "backup" in path.name] == []
