"""The stores that content is kept in: a local folder, and S3."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.storage.objects.opening import open_objects
from forebay.storage.objects.store import ObjectStore
from tests.support.servers.s3 import BUCKET, S3Server, s3_server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> ObjectStore:
    return open_objects(tmp_path / "objects", {})


@pytest.fixture(params=["folder", "s3"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    """An empty store, of each kind."""
    if request.param == "folder":
        return request.getfixturevalue("folder")
    server: S3Server = request.getfixturevalue("s3")
    return open_objects(f"s3://{BUCKET}/{tmp_path.name}", server.options)
