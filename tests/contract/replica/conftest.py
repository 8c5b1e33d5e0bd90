"""One replica for all of these tests: the real engine, a real server, a small model.

`FOREBAY_TEST_MODEL` names another model to run them on.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from openai import OpenAI

from forebay.core.clock import SystemClock
from forebay.engine.build import build_engine
from forebay.engine.service import AsyncEngine
from forebay.engine.settings import EngineSettings
from forebay.modelfiles.loading import load
from forebay.modelfiles.model import ModelFiles
from forebay.replica.app import create_app
from forebay.replica.settings import ReplicaSettings
from tests.support.running_app import RunningApp, running
from tests.support.tiny_chat_model import write_tiny_chat_model

MODEL = "tiny"
MAX_BODY_BYTES = 100_000


@dataclass(frozen=True)
class Replica:
    """A replica that runs, and the engine inside it to look at."""

    app: RunningApp
    engine: AsyncEngine
    model: ModelFiles

    @property
    def url(self) -> str:
        return self.app.url


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tiny_chat_model(tmp_path_factory.mktemp("model") / "tiny"))


@pytest.fixture(scope="session")
def model_source(tiny_model: str) -> str:
    return os.environ.get("FOREBAY_TEST_MODEL") or tiny_model


@pytest.fixture(scope="session")
def model(model_source: str, tmp_path_factory: pytest.TempPathFactory) -> ModelFiles:
    return load(model_source, tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def engine(model: ModelFiles) -> Iterator[AsyncEngine]:
    built = build_engine(model, EngineSettings(kv_cache_gb=0.25, max_num_seqs=4, threads=1), SystemClock())
    yield built
    built.close()


@pytest.fixture(scope="session")
def replica(engine: AsyncEngine, model: ModelFiles) -> Iterator[Replica]:
    settings = ReplicaSettings(served_model_name=MODEL, max_body_bytes=MAX_BODY_BYTES, trust_public_prefix=True)
    with running(create_app(engine, model, settings)) as app:
        yield Replica(app, engine, model)


@pytest.fixture(scope="session")
def client(replica: Replica) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{replica.url}/v1", api_key="unused", max_retries=0, timeout=60) as made:
        yield made


@pytest.fixture(scope="session")
def http(replica: Replica) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=replica.url, timeout=60) as made:
        yield made


@pytest.fixture
def folder_without_template(tmp_path: Path) -> Path:
    return write_tiny_chat_model(tmp_path / "plain", chat_template=False)
