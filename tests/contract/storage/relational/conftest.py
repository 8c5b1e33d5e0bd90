"""Empty databases of both kinds."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forebay.storage.relational.store import RelationalStore, open_configuration_store
from tests.support.servers.postgres import PostgresServer, postgres_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def new_database(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[str], str]:
    """The URL of a new, empty database of a kind."""
    numbers = iter(range(1000))

    def make(kind: str) -> str:
        if kind == "postgres":
            return request.getfixturevalue("postgres").new_database()
        return f"sqlite:///{tmp_path}/database-{next(numbers)}/configuration.db"

    return make


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> str:
    return new_database(request.param)


@pytest.fixture
def store(url: str) -> Iterator[RelationalStore]:
    opened = open_configuration_store(url)
    try:
        opened.migrate()
        yield opened
    finally:
        opened.close()
