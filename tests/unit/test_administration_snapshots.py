"""The snapshot that requests are served by, and how it is kept fresh."""

import asyncio
import math
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from forebay.administration.snapshot import snapshot_of
from forebay.administration.snapshots import Snapshots
from forebay.administration.store import Contents
from forebay.core.clock import ManualClock
from forebay.core.errors import StoreUnavailable
from forebay.tenancy.resources import PlatformPrompt, Tenant


def contents(change: int, *tenants: str) -> Contents:
    rows = [Tenant(id=id_) for id_ in tenants]
    return Contents(change=change, tenants=rows, keys=[], quotas=[], prices=[], prompts=[])


class MemoryStore:
    """Of the store's protocol, what snapshots ask for; `fault` is raised instead of an answer."""

    def __init__(self, held: Contents) -> None:
        self.held = held
        self.fault: Exception | None = None
        self.contents_read = 0
        self.numbers_read = 0

    def change_number(self) -> int:
        self.numbers_read += 1
        if self.fault is not None:
            raise self.fault
        return self.held.change

    def contents(self) -> Contents:
        if self.fault is not None:
            raise self.fault
        self.contents_read += 1
        return self.held


def snapshots_over(store: MemoryStore, clock: ManualClock) -> Snapshots:
    return Snapshots(store, clock, 0.01)  # type: ignore[arg-type]


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - what it waits for is another thread's
            await asyncio.sleep(0.001)


def test_prompts_are_for_the_models_that_they_name() -> None:
    prompts = [
        PlatformPrompt(id="all", text="for all"),
        PlatformPrompt(id="tiny", text="for tiny", models=("tiny",)),
        PlatformPrompt(id="none", text="for none", models=()),
    ]
    snapshot = snapshot_of(Contents(change=1, tenants=[], keys=[], quotas=[], prices=[], prompts=prompts))
    assert snapshot.prompts_for("tiny") == ("for all", "for tiny")
    assert snapshot.prompts_for("large") == ("for all",)


async def _contents_are_read_only_when_they_have_changed() -> None:
    store, clock = MemoryStore(contents(3, "a")), ManualClock()
    snapshots = snapshots_over(store, clock)
    assert snapshots.age_s == math.inf
    await snapshots.refresh()
    first = snapshots.current
    await snapshots.refresh()
    assert (snapshots.current, store.contents_read) == (first, 1)
    store.held = contents(4, "a", "b")
    await snapshots.refresh()
    assert snapshots.current.change == 4
    assert snapshots.current.directory.tenant("b") is not None


def test_contents_are_read_only_when_they_have_changed() -> None:
    asyncio.run(_contents_are_read_only_when_they_have_changed())


async def _the_last_snapshot_outlives_the_database() -> None:
    store, clock = MemoryStore(contents(1, "a")), ManualClock()
    snapshots = snapshots_over(store, clock)
    await snapshots.refresh()
    store.fault = StoreUnavailable("away")
    clock.advance(7)
    with pytest.raises(StoreUnavailable):
        await snapshots.refresh()
    assert snapshots.current.directory.tenant("a") is not None
    assert snapshots.age_s == 7
    store.fault = None
    await snapshots.refresh()
    assert snapshots.age_s == 0


def test_the_last_snapshot_outlives_the_database() -> None:
    asyncio.run(_the_last_snapshot_outlives_the_database())


async def _before_the_first_there_is_none() -> None:
    store = MemoryStore(contents(0, "a"))
    store.fault = StoreUnavailable("away")
    snapshots = snapshots_over(store, ManualClock())
    with pytest.raises(StoreUnavailable, match="away"):
        await snapshots.refresh()
    with pytest.raises(StoreUnavailable, match="could not be read"):
        _ = snapshots.current
    store.fault = None
    await snapshots.refresh()
    assert snapshots.current.directory.tenant("a") is not None


def test_before_the_first_there_is_none() -> None:
    asyncio.run(_before_the_first_there_is_none())


@pytest.mark.parametrize("fault", [StoreUnavailable("away"), RuntimeError("nobody foresaw this")])
def test_the_loop_outlives_every_fault_and_tells_of_it_once(fault: Exception) -> None:
    async def outlive() -> None:
        store = MemoryStore(contents(1))
        snapshots = snapshots_over(store, ManualClock())
        async with asyncio.TaskGroup() as tasks:
            loop = tasks.create_task(snapshots.run())
            await until(lambda: store.contents_read == 1)
            store.fault = fault
            asked = store.numbers_read
            await until(lambda: store.numbers_read > asked + 3)
            store.held, store.fault = contents(2), None
            await until(lambda: snapshots.current.change == 2)
            asked = store.numbers_read
            await until(lambda: store.numbers_read > asked + 2)
            loop.cancel()

    with capture_logs() as logs:
        asyncio.run(outlive())
    assert [entry["log_level"] for entry in logs] == ["warning", "info"]
