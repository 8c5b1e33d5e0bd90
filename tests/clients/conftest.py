"""One platform for all of the clients, with its default settings. It has an environment of its own, beside theirs."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.acceptance.processes import forebay, until

KEY = "clients-key-0123456789"
PYTHON = Path(__file__).parents[2] / ".venv" / "bin" / "python"


@dataclass(frozen=True)
class Platform:
    """Where it listens, and the name of its first model."""

    url: str
    key: str
    model: str


@pytest.fixture(scope="session")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    directory = tmp_path_factory.mktemp("platform")
    settings = {"FOREBAY_DATA_DIR": str(directory / "data"), "FOREBAY_TENANCY__API_KEY": KEY}
    with forebay(directory, ["serve"], settings, python=str(PYTHON)) as process:
        until("its pool is ready", lambda: "Ctrl-C stops it" in process.printed(), process.process, process.output)
        model, *_ = process.health()["pools"]
        yield Platform(process.url, KEY, model)
