"""Usage reports, over HTTP, of a real warehouse."""

import csv
import json
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import msgspec
import pytest

from forebay.storage.objects.opening import open_objects
from forebay.storage.usage.duck import Duck
from forebay.storage.usage.partitions import Partitions
from forebay.storage.usage.warehouse import Warehouse
from tests.contract.cli.conftest import Cli
from tests.contract.gateway_admin.platform import AdminPlatform, admin_platform
from tests.contract.storage.usage.records import DAY_S, NOON, ended, opened, tokens


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[AdminPlatform]:
    """One whose November 2025 has three requests, and whose December has one."""
    scratch = tmp_path / "scratch"
    duck = Duck(scratch, 256)
    partitions = Partitions(open_objects(tmp_path / "objects", {}), scratch, 2**20)
    records: list[bytes] = []
    for id_, tenant, later_s in (("1", "acme", 0.0), ("2", "acme", 0.0), ("3", "=zeta", 0.0), ("4", "acme", DAY_S)):
        usage = opened(id_, tenant=tenant, opened_at=NOON + later_s)
        records.append(msgspec.json.encode(ended(usage, tokens(prompt=1000, cached=400, output=100))))
    partitions.put_records(duck, b"\n".join(records) + b"\n", "all")
    books = Warehouse(partitions, duck, tmp_path / "log", scratch)
    try:
        with admin_platform(tmp_path, books) as made:
            made.wall.now = time.time()
            yield made
    finally:
        books.close()
        duck.close()


def test_a_month_s_report(cli: Cli, tmp_path: Path) -> None:
    file, parquet = tmp_path / "report.csv", tmp_path / "re'port.parquet"
    ran = cli("usage", "report", "--month", "2025-11", "--csv", str(file), "--parquet", str(parquet))
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[-1].split()[:2] == ["total", "3"]

    with file.open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    told = [(row["month"], row["tenant"], row["priority"], row["requests"], row["prompt_tokens"]) for row in rows]
    assert told == [
        ("2025-11", "'=zeta", "interactive", "1", "1000"),
        ("2025-11", "acme", "interactive", "2", "2000"),
        ("2025-11", "", "", "3", "3000"),
    ]
    (total,) = [row["cost_usd"] for row in rows[2:]]
    asked = json.loads(cli("usage", "report", "--month", "2025-11", "--json").out)
    assert asked["total"]["cost_usd"] == total

    written = duckdb.sql(
        f"SELECT tenant, requests, cost_usd FROM read_parquet('{str(parquet).replace(chr(39), chr(39) * 2)}')"
    )
    assert [(tenant, requests) for tenant, requests, _ in written.fetchall()] == [("=zeta", 1), ("acme", 2)]
    assert sorted(tmp_path.glob("re'port*")) == [parquet]


def test_usage_of_any_time(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    out = cli("usage", "show", "--from", "2025-12-01", "--to", "2025-12-02", "--group-by", "tenant,day").out
    header, row, total = out.splitlines()
    assert header.split()[:3] == ["tenant", "day", "requests"]
    assert row.split()[:4] == ["acme", "2025-12-01", "1", "1,000"]
    assert total.split()[:2] == ["total", "1"]
    assert cli("usage", "show", "--from", "2024-01", "--to", "2024-02").out == "Nothing was used.\n"
    assert len(cli("usage", "show", "--from", "2025-11", "--tenant", "=zeta", "--json").json["data"]) == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["report", "--month", "2025-13"], "--month: expected a month"),
        (["show", "--group-by", "tennant"], "did you mean tenant"),
        (["report", "--month", "2025-11", "--csv", "/nowhere/x.csv"], "--csv: /nowhere/x.csv cannot be written"),
        (["report", "--month", "2025-11", "--parquet", "/nowhere/x"], "/nowhere/x cannot be written"),
    ],
)
def test_what_is_refused_says_why(cli: Cli, arguments: list[str], said: str) -> None:
    ran = cli("usage", *arguments)
    assert ran.code != 0
    assert said in ran.err
