"""The disk of the data directory fills up under load, and has room again."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import httpx
import msgspec
import pytest

from forebay.metering.usage import UsageRecord
from forebay.storage.usage.inheritance import segments_below
from forebay.storage.usage.tail import closed_records
from tests.acceptance.operated import BRIEF_TOKENS, OPERATOR_KEY, chat
from tests.acceptance.processes import ForebayProcess, forebay, until
from tests.acceptance.small_disk import small_disk

pytestmark = pytest.mark.chaos

CALLERS = 4
FULL_FOR_S = 12.0
"""Longer than it takes until segments are sealed and shipped, and everything that fails is tried again."""
CONFIGURATION = """
data_dir = "{disk}/data"
tenancy.api_key = "{key}"
metering.segment_age_s = 1.0
fleet.probe_interval_s = 0.5

[pools.brief]
url = "{engine}"
upstream_model = "brief"
"""


class Told(NamedTuple):
    """What a caller was told: the tokens of an answer, the type of a refusal."""

    status: int
    request_id: str
    tokens: int | None
    type: str | None


class Load:
    """Callers that ask on and on; what they were told is in `told`."""

    def __init__(self, process: ForebayProcess) -> None:
        self._process = process
        self._over = threading.Event()
        self.told: list[Told] = []
        self.failures: list[str] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        callers = [threading.Thread(target=self._call) for _ in range(CALLERS)]
        for caller in callers:
            caller.start()
        try:
            yield
        finally:
            self._over.set()
            for caller in callers:
                caller.join(60)

    def _call(self) -> None:
        headers = {"Authorization": f"Bearer {OPERATOR_KEY}"}
        with httpx.Client(base_url=self._process.url, headers=headers, timeout=60) as client:
            while not self._over.is_set():
                try:
                    self.told.append(_told(client.post("/chat/completions", json=chat())))
                except httpx.HTTPError as error:
                    self.failures.append(repr(error))
                time.sleep(0.02)

    def has(self, status: int, since: int) -> bool:
        return any(one.status == status for one in self.told[since:])


def _told(answer: httpx.Response) -> Told:
    said: dict[str, Any] = answer.json()
    tokens = said["usage"]["completion_tokens"] if answer.status_code == 200 else None
    return Told(answer.status_code, answer.headers["X-Request-Id"], tokens, said.get("type"))


@pytest.fixture
def brief(tmp_path: Path, tiny_models: Path) -> Iterator[ForebayProcess]:
    """An engine elsewhere, whose disk is another."""
    arguments = ["engine", "serve", "--model", str(tiny_models / "brief"), "--served-model-name", "brief"]
    arguments += ["--weight-precision", "f32", "--kv-cache-gb", "0.1", "--swap-space-gb", "0.1"]
    with forebay(tmp_path / "engine", arguments) as process:
        yield process


def test_a_full_disk_ends_admission_and_nothing_else(tmp_path: Path, brief: ForebayProcess) -> None:
    with small_disk(tmp_path / "disk", 4) as disk:
        directory = tmp_path / "gateway"
        directory.mkdir()
        configuration = CONFIGURATION.format(disk=disk.path, key=OPERATOR_KEY, engine=brief.url)
        (directory / "forebay.toml").write_text(configuration)
        with serving(directory) as process:
            load = Load(process)
            with load.running():
                until("some are answered", lambda: len(load.told) > 20, process.process, process.output)
                disk.fill()
                until("one is refused", lambda: load.has(503, 0), process.process, process.output)
                time.sleep(FULL_FOR_S)
                assert process.process.poll() is None, process.printed()
                ready = httpx.get(f"{process.root}/health/ready", timeout=30)
                assert (ready.status_code, ready.json()["status"]) == (503, "degraded")
                assert ready.json()["usage_log"] == "failing"
                disk.make_room()
                since = len(load.told)
                until("one is answered", lambda: load.has(200, since), process.process, process.output)
                until("it is ready", lambda: is_ready(process), process.process, process.output, 30)
                shipped = "usage is shipped again"
                until("it ships again", lambda: shipped in process.printed(), process.process, process.output, 60)
            assert process.terminate() == 0
            printed = process.printed()
        assert not load.failures
        assert {(one.status, one.type) for one in load.told if one.tokens is None} == {(503, refusal(load))}
        assert "Traceback" not in printed
        assert "a loop failed" not in printed
        assert (printed.count("usage not shipped"), printed.count(shipped)) == (1, 1)
        with serving(directory) as process:
            until("all are shipped", lambda: not records_in_logs(disk.path), process.process, process.output, 60)
            assert process.terminate() == 0
        answered = {one.request_id: one.tokens for one in load.told if one.status == 200}
        booked = records_in_warehouse(disk.path)
        assert set(answered.values()) == {BRIEF_TOKENS}
        assert len({record.id for record in booked}) == len(booked) == len(answered)
        assert {record.request_id: record.output_tokens for record in booked} == answered
        assert {record.status for record in booked} == {"completed"}


@contextmanager
def serving(directory: Path) -> Iterator[ForebayProcess]:
    (directory / "port").unlink(missing_ok=True)
    with forebay(directory, ["serve"]) as process:
        until("it is ready", lambda: is_ready(process), process.process, process.output)
        yield process


def is_ready(process: ForebayProcess) -> bool:
    return httpx.get(f"{process.root}/health/ready", timeout=30).status_code == 200


def refusal(load: Load) -> str:
    """The type that a refusal is to have."""
    return next(one.type for one in load.told if one.type is not None and one.type.endswith("store-unavailable"))


def records_in_logs(disk: Path) -> list[UsageRecord]:
    found: list[UsageRecord] = []
    for segment in segments_below(disk / "data" / "usage" / "log"):
        try:
            content = segment.read_bytes()
        except FileNotFoundError:
            continue
        found += [msgspec.json.decode(line, type=UsageRecord) for line in closed_records(content).splitlines()]
    return found


def records_in_warehouse(disk: Path) -> list[UsageRecord]:
    with duckdb.connect(":memory:") as database:
        files = [str(path) for path in disk.rglob("*.parquet")]
        rows = database.execute("SELECT * FROM read_parquet(?, union_by_name = true)", [files])
        names = [str(column[0]) for column in rows.description]
        return [msgspec.convert(dict(zip(names, row, strict=True)), UsageRecord) for row in rows.fetchall()]
