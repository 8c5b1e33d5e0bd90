"""Reconciliation, over HTTP, of a real warehouse with engines' logs."""

import io
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from forebay.cli.admin import reconcile_records
from forebay.metering.usage import UsageRecord
from forebay.storage.objects.opening import open_objects
from forebay.storage.usage.duck import Duck
from forebay.storage.usage.partitions import Partitions
from forebay.storage.usage.warehouse import Warehouse
from tests.contract.cli.conftest import Cli
from tests.contract.gateway_admin.platform import AdminPlatform, admin_platform
from tests.contract.storage.usage.records import DAY_S, NOON, ended, opened, tokens

REQUESTS = 7
PERIOD = ("--from", "2025-11-30", "--to", "2025-12-01")


def records() -> list[UsageRecord]:
    """Of a day: three at the same moment, the others minutes apart; and one of the day after."""
    later = [0.0, 0.0, 0.0, 60.0, 120.0, 180.0, 240.0, DAY_S]
    usages = [opened(f"r{number}", opened_at=NOON + later_s) for number, later_s in enumerate(later)]
    return [ended(usage, tokens(output=10 + number)) for number, usage in enumerate(usages)]


def log_line(record: UsageRecord, **changed: object) -> str:
    told: dict[str, Any] = {"request_id": record.id, "prompt_tokens": record.prompt_tokens}
    told |= {"cached_tokens": record.cached_tokens, "completion_tokens": record.output_tokens, "event": "generated"}
    told["timestamp"] = datetime.fromtimestamp(record.ended_at, UTC).isoformat()
    return json.dumps(told | changed) + "\n"


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[AdminPlatform]:
    scratch = tmp_path / "scratch"
    duck = Duck(scratch, 256)
    partitions = Partitions(open_objects(tmp_path / "objects", {}), scratch, 2**20)
    partitions.put_records(duck, b"".join(msgspec.json.encode(record) + b"\n" for record in records()), "all")
    books = Warehouse(partitions, duck, tmp_path / "log", scratch)
    try:
        with admin_platform(tmp_path, books) as made:
            made.wall.now = time.time()
            yield made
    finally:
        books.close()
        duck.close()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """An engine's log that agrees, and begins before the first request."""
    file = tmp_path / "engine.log"
    first = json.dumps({"event": "ready", "timestamp": "2025-11-30T08:00:00Z"})
    file.write_text(f"{first}\n{''.join(log_line(record) for record in records())}")
    return file


@pytest.mark.parametrize("by", ["pool", "request"])
@pytest.mark.parametrize("page", [1000, 2])
def test_all_agree_however_many_pages_they_come_in(
    cli: Cli, log: Path, by: str, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile_records, "PAGE", page)
    ran = cli("usage", "reconcile", *PERIOD, "--engine-log", str(log), "--by", by)
    assert ran.code == 0, ran.err + ran.out
    assert ran.out.splitlines()[-1] == f"No drift: {REQUESTS} compared."
    assert ("assistant-large" in ran.out) == (by == "pool")


def test_any_period_can_be_asked_for(cli: Cli, log: Path) -> None:
    ran = cli("usage", "reconcile", "--from", "1970-01", "--to", "9999-12-31", "--engine-log", str(log))
    assert (ran.code, ran.out.splitlines()[-1]) == (0, f"No drift: {REQUESTS + 1} compared."), ran.err


def test_the_one_that_differs_is_named(cli: Cli, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    log.write_text(log.read_text().replace('"completion_tokens": 13', '"completion_tokens": 15'))
    ran = cli("usage", "reconcile", *PERIOD, "--engine-log", str(log), "--by", "request")
    assert ran.code == 1
    (row,) = [line.split() for line in ran.out.splitlines() if "DRIFT" in line]
    assert row == ["r3", "assistant-large", "100/40/15", "100/40/13", "+0/+0/-2", "DRIFT:", "differs"]
    assert ran.out.splitlines()[-1] == f"Drift: {REQUESTS} compared, of which 1 differs."

    ran = cli("usage", "reconcile", *PERIOD, "--engine-log", str(log))
    assert ran.code == 1
    (row,) = [line.split() for line in ran.out.splitlines() if "DRIFT" in line]
    assert row == ["assistant-large", "7", "1", "700/280/93", "700/280/91", "+0/+0/-2", "DRIFT"]
    assert cli("usage", "reconcile", *PERIOD, "--engine-log", str(log), "--tolerance", "0.03").code == 0


def test_what_only_one_side_has(cli: Cli, log: Path) -> None:
    lost, *rest = log.read_text().splitlines(keepends=True)[1:]
    assert '"r0"' in lost
    free = json.loads(lost) | {"request_id": "free"}
    log.write_text(f"{log.read_text().splitlines()[0]}\n{''.join(rest)}{json.dumps(free)}\n")
    ran = cli("usage", "reconcile", *PERIOD, "--engine-log", str(log), "--by", "request", "--json")
    assert ran.code == 1
    assert ran.json["drift"] is True
    assert {row["id"]: row["finding"] for row in ran.json["data"]} == {"r0": "not in the log", "free": "not billed"}
    assert ran.json["findings"] == {"agrees": REQUESTS - 1, "not billed": 1, "not in the log": 1}


def test_what_was_rotated_away_or_has_no_log_is_not_judged(cli: Cli, log: Path, tmp_path: Path) -> None:
    log.write_text("".join(line for line in log.read_text().splitlines(keepends=True)[5:]))
    ran = cli("usage", "reconcile", *PERIOD, "--engine-log", str(log))
    assert ran.code == 0
    assert ran.out.splitlines()[-1] == "No drift: 3 compared. Not compared: 4 older than their engine's log."
    empty = tmp_path / "empty.log"
    empty.touch()
    ran = cli("usage", "reconcile", *PERIOD, "--engine-log", str(empty))
    assert (ran.code, ran.out) == (0, "No drift: 0 compared. Not compared: 7 of replicas without a log here.\n")


def test_the_local_pools_logs(cli: Cli, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "forebay.toml").write_text('data_dir = "data"\n[pools.assistant-large]\nmodel = "model"\n')
    ran = cli("usage", "reconcile", *PERIOD)
    assert ran.code == 1
    assert "--engine-log: name the engines' logs" in ran.err
    logs = tmp_path / "data" / "logs"
    logs.mkdir(parents=True)
    whole = log.read_text()
    (logs / "assistant-large-0.log.1").write_text(whole[:500])
    (logs / "assistant-large-0.log").write_text(whole[500:])
    ran = cli("usage", "reconcile", *PERIOD)
    assert (ran.code, ran.out.splitlines()[-1]) == (0, f"No drift: {REQUESTS} compared."), ran.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--from", "2025-12-01", "--to", "2025-12-01"], "--from: it is not before --to"),
        (["--from", "soon"], "--from: expected a time"),
        (["--tolerance", "2"], "--tolerance: expected a share"),
        (["--tolerance", "nan"], "--tolerance: expected a share"),
        (["--grace", "long"], "--grace: expected a duration"),
        (["--engine-log", "/nowhere/x.log"], "--engine-log: there is no /nowhere/x.log"),
    ],
)
def test_what_is_refused_says_why(cli: Cli, arguments: list[str], said: str) -> None:
    ran = cli("usage", "reconcile", *arguments)
    assert ran.code != 0
    assert said in ran.err


def test_standard_input(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    ran = cli("usage", "reconcile", *PERIOD, "--engine-log", "-", "--by", "request")
    assert ran.code in {0, 1}, ran.err
    assert ran.err == ""
