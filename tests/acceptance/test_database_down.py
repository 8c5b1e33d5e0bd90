"""The configuration's database goes away under load, and comes back."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import openai
import pytest

from forebay.administration.kinds import TENANTS
from forebay.storage.relational.store import open_configuration_store
from tests.acceptance.operated import Operated, chat, operated, write_configuration
from tests.acceptance.processes import run_forebay, until
from tests.support.servers.postgres import PostgresServer, postgres_server

pytestmark = pytest.mark.chaos

CALLERS = 4
REFRESH_LIMIT_S = 30.0
"""Within so long a change is in force."""


@dataclass
class Load:
    """Callers that ask on and on, whole and streamed; what went wrong is in `failures`."""

    client: openai.OpenAI
    answers: int = 0
    failures: list[str] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator[None]:
        callers = [threading.Thread(target=self._call, args=(number % 2 == 0,)) for number in range(CALLERS)]
        for caller in callers:
            caller.start()
        try:
            yield
        finally:
            self._over.set()
            for caller in callers:
                caller.join(60)

    def _call(self, stream: bool) -> None:
        while not self._over.is_set():
            try:
                if stream:
                    chunks = list(self.client.chat.completions.create(**chat(), stream=True))
                    assert chunks[-1].choices[0].finish_reason == "stop"
                else:
                    self.client.chat.completions.create(**chat())
                self.answers += 1
            except Exception as error:
                self.failures.append(repr(error))
            time.sleep(0.02)

    def goes_on(self) -> None:
        """Wait for as many answers again as there are callers, twice."""
        enough = self.answers + 2 * CALLERS
        until("answers come", lambda: self.answers >= enough or self.failures, limit_s=60)
        assert self.failures == []


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


def refused_writes(service: Operated) -> None:
    """Each says that it is not done, and why."""
    for method, path, body in (
        ("POST", "tenants", {"id": "late"}),
        ("PATCH", "tenants/default", {"name": "x"}),
        ("DELETE", "tenants/default", None),
        ("GET", "tenants", None),
    ):
        began = time.monotonic()
        answer = service.admin(method, path, body)
        assert answer.status_code == 503, answer.text
        told = answer.json()
        assert told["type"] == "urn:forebay:problem:store-unavailable"
        assert "database" in told["detail"]
        assert time.monotonic() - began < 15


def freeze(postgres: PostgresServer) -> None:
    """It keeps its connections and answers nothing, as when its disk or its network hangs."""
    _signal_all(postgres, signal.SIGSTOP)


def go_on(postgres: PostgresServer) -> None:
    _signal_all(postgres, signal.SIGCONT)


def _signal_all(postgres: PostgresServer, what: signal.Signals) -> None:
    os.kill(postgres.pid, what)
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(postgres.pid)], capture_output=True, text=True, check=True
    )
    for child in map(int, listed.stdout.split()):
        with suppress(ProcessLookupError):
            os.kill(child, what)


OUTAGES: dict[str, tuple[Callable[[PostgresServer], None], Callable[[PostgresServer], None]]] = {
    "stopped": (PostgresServer.stop, PostgresServer.start),
    "crashed": (PostgresServer.kill, PostgresServer.start),
    "frozen": (freeze, go_on),
}


@pytest.mark.parametrize("outage", OUTAGES)
def test_no_inference_request_fails(tmp_path: Path, tiny_models: Path, postgres: PostgresServer, outage: str) -> None:
    """Nor does a change get lost that is made, elsewhere, once the database is back."""
    begins, ends = OUTAGES[outage]
    database = postgres.new_database()
    write_configuration(tmp_path / "own", tiny_models, f'storage.database = "{database}"')
    with operated(tmp_path / "own") as service, ExitStack() as undone:
        tenant = service.tenant()
        secret = service.key(tenant)["secret"]
        service.quota(tenant, tokens_per_minute=10_000_000)
        load = Load(service.client(secret))
        with load.running():
            load.goes_on()
            begins(postgres)
            undone.callback(ends, postgres)
            load.goes_on()
            refused_writes(service)
            # Over several looks for changes.
            time.sleep(2)
            load.goes_on()
            assert service.process.health()["status"] == "ready"
            age = metric(service, "forebay_configuration_age_seconds")
            assert age >= 2
            undone.close()
            until("writes are taken", lambda: service.admin("POST", "tenants", {"id": "late"}).status_code == 201)
            load.goes_on()
            disable_elsewhere(database, tenant)
            until("the change is in force", lambda: load.failures, limit_s=REFRESH_LIMIT_S)
        assert {failure.partition("(")[0] for failure in load.failures} == {"AuthenticationError"}
        assert metric(service, "forebay_configuration_age_seconds") < 2
        rows = service.done("GET", f"usage?group_by=status&tenant={tenant}")["data"]
        assert {row["status"]: row["requests"] for row in rows} == {"completed": load.answers}


def test_it_stops_without_its_database_and_does_not_start(
    tmp_path: Path, tiny_models: Path, postgres: PostgresServer
) -> None:
    directory = tmp_path / "own"
    write_configuration(directory, tiny_models, f'storage.database = "{postgres.new_database()}"')
    with operated(directory) as service:
        client = service.client(service.key(service.tenant())["secret"])
        client.chat.completions.create(**chat())
        postgres.stop()
        began = time.monotonic()
        assert service.process.terminate() == 0
        assert time.monotonic() - began < 20
    refused = run_forebay(["serve", "--port", "0"], directory)
    assert refused.returncode != 0
    assert "database" in refused.stdout + refused.stderr
    assert "Traceback" not in refused.stdout + refused.stderr


def metric(service: Operated, name: str) -> float:
    (line,) = [line for line in service.process.get("/metrics").decode().splitlines() if line.startswith(f"{name} ")]
    return float(line.split()[1])


def disable_elsewhere(database: str, tenant: str) -> None:
    """As another gateway would: this one is told by the database alone."""
    store = open_configuration_store(database)
    try:
        found = store.get(TENANTS, tenant)
        assert found is not None
        disabled = msgspec.structs.replace(found.value, disabled=True)
        store.replace(TENANTS, disabled, expected=found.revision, actor="elsewhere", at=time.time())
    finally:
        store.close()
