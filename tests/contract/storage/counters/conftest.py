"""One Valkey server for these tests; each takes a prefix of its own in it."""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from tests.support.servers.valkey import ValkeyServer, valkey_server


@pytest.fixture(scope="package")
def server() -> Iterator[ValkeyServer]:
    with valkey_server() as running:
        yield running


@pytest.fixture
def prefix() -> str:
    return f"test-{uuid4().hex}"
