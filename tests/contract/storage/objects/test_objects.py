"""Objects: a local folder and a real S3 server behave alike."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.core.errors import ConfigurationError, StoreUnavailable
from forebay.storage.objects.opening import open_objects
from forebay.storage.objects.store import ObjectStore
from tests.support.servers.s3 import S3Server, s3_server

BIG = bytes(range(256)) * 40_000
"""More than one part of an upload."""


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture(params=["folder", "s3"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "folder":
        return open_objects(tmp_path / "objects", {})
    server: S3Server = request.getfixturevalue("s3")
    return open_objects(f"s3://forebay/{tmp_path.name}", server.options)


def test_what_is_put_is_got_and_replaced(objects: ObjectStore):
    assert objects.get("a/b.txt") is None
    objects.put("a/b.txt", b"one")
    objects.put("a/b.txt", b"two")
    assert objects.get("a/b.txt") == b"two"
    objects.put("empty", b"")
    assert objects.get("empty") == b""


def test_big_files_go_both_ways(objects: ObjectStore, tmp_path: Path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(BIG)
    objects.put("big", source)
    assert objects.download("big", target)
    assert target.read_bytes() == BIG
    assert not objects.download("nothing", tmp_path / "none")


def test_a_listing_is_of_a_folder_and_below(objects: ObjectStore):
    for path in ("b/2", "b/1", "b/c/3", "bb/4", "a"):
        objects.put(path, path.encode())
    found = objects.below("b")
    assert [(one.path, one.size) for one in found] == [("b/1", 3), ("b/2", 3), ("b/c/3", 5)]
    assert all(one.modified_at > 1.7e9 for one in found)
    assert objects.below("nothing") == []
    assert len(objects.below("")) == 5


def test_what_is_deleted_is_gone_and_may_be_gone_already(objects: ObjectStore):
    objects.put("a/1", b"")
    objects.put("a/2", b"")
    objects.delete(["a/1", "never", "a/1"])
    assert [one.path for one in objects.below("a")] == ["a/2"]


def test_wrong_credentials_are_told_without_telling_them(s3: S3Server):
    options = {**s3.options, "secret_access_key": "not-the-secret-at-all"}
    objects = open_objects("s3://forebay/x", options)
    with pytest.raises(StoreUnavailable, match="s3://forebay/x") as caught:
        objects.put("a", b"")
    assert "not-the-secret" not in caught.value.detail


def test_a_server_that_is_not_there_is_told_within_the_time():
    objects = open_objects(
        "s3://b/x", {"endpoint": "http://127.0.0.1:9", "access_key_id": "a", "secret_access_key": "b"}, timeout_s=1
    )
    for call in (lambda: objects.get("a"), lambda: objects.below("a"), lambda: objects.put("a", b"")):
        with pytest.raises(StoreUnavailable, match="s3://b/x"):
            call()


@pytest.mark.parametrize("location", ["ftp://host/x", "s4://bucket"])
def test_other_addresses_are_refused(location: str):
    with pytest.raises(ConfigurationError, match="s3://"):
        open_objects(location, {})


def test_options_that_are_not_known_are_refused():
    with pytest.raises(ConfigurationError, match="s3://b"):
        open_objects("s3://b", {"colour": "red"})


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="file"):
        open_objects(tmp_path / "file" / "below", {})


def test_a_disk_that_fails_is_told(tmp_path: Path):
    objects = open_objects(tmp_path, {})
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="the folder"):
        objects.put("file/below", b"")
