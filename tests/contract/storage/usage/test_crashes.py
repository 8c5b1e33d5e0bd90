"""Processes that are killed and disks that are full: nothing that was promised is lost, nothing is there twice."""

import asyncio
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from forebay.metering.closing import recovered
from forebay.storage.objects.opening import open_objects
from tests.contract.storage.usage.books import FOREVER, open_books
from tests.contract.storage.usage.records import NOON
from tests.contract.storage.usage.test_local_log import log_at, records_below

LIVES = 3


def start(root: Path, name: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "tests.contract.storage.usage.working", str(root), name],
        stdout=subprocess.PIPE,
        text=True,
    )


def kill(process: "subprocess.Popen[str]") -> str:
    """All that it said."""
    process.kill()
    said, _ = process.communicate(timeout=30)
    return said


def promised(said: str, what: str) -> set[str]:
    """The last line may be cut off."""
    whole = said[: said.rfind("\n") + 1].splitlines()
    return {line.split(" ")[1] for line in whole if line.startswith(f"{what} ")}


@pytest.mark.parametrize("seed", [1, 2])
def test_each_id_is_in_the_books_once_however_often_its_gateways_are_killed(tmp_path: Path, seed: int):
    chance = random.Random(seed)
    said = ""
    for life in range(LIVES):
        # Two at once: each has its directory, and whoever starts next takes over both.
        gateways = [start(tmp_path, f"{life}{side}") for side in "ab"]
        try:
            for gateway in gateways:
                assert gateway.stdout is not None
                assert gateway.stdout.readline().startswith("ready")
            time.sleep(chance.random())
        finally:
            said += "".join(map(kill, gateways))
    opened, closed = promised(said, "opened"), promised(said, "closed")
    assert closed

    async def work() -> None:
        async with open_books(tmp_path, open_objects(tmp_path / "objects", {})) as books:
            for one in books.log.recovered():
                await books.log.close(recovered(*one, now=NOON + 60))
            booked = await books.ids()
            assert set(booked.values()) == {1}
            assert opened | closed <= booked.keys()
            rows = await books.warehouse.query(*FOREVER, ["tag:n"], {"status": "recovered"})
            assert not {row.group["tag:n"] for row in rows} & closed
            await books.shipper.ship()
            assert await books.ids() == booked

    asyncio.run(asyncio.wait_for(work(), 120))


def test_a_full_disk_lets_nobody_in_and_loses_no_end(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-m", "tests.contract.storage.usage.full_disk", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "usage not written" in done.stdout + done.stderr
    assert sorted({record.id for record in records_below(tmp_path)}) == [f"r{number}" for number in range(5)]

    async def work() -> None:
        async with log_at(tmp_path) as log:
            assert [one.opened.id for one in log.recovered()] == ["after"]

    asyncio.run(work())


def test_a_full_disk_ends_neither_the_shipping_nor_the_books(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-m", "tests.contract.storage.usage.full_warehouse", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = done.stdout + done.stderr
    assert (told.count("usage not written"), told.count("usage is written again")) == (1, 1)
    assert told.count("usage not shipped") == 1
