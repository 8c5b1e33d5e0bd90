"""What is older than it may get is deleted, and nothing else."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from forebay.core.errors import StoreUnavailable
from forebay.storage.content.answer_shelf import ObjectAnswerShelf
from forebay.storage.content.content_log import ObjectContentLog
from forebay.storage.content.retention import Retention
from forebay.storage.content.settings import ContentSettings
from forebay.storage.objects.opening import open_objects
from forebay.storage.objects.store import ObjectStore
from forebay.tenancy.resources import Tenant
from tests.contract.storage.content.contents import DAY_S, NOON, content, paths, tenant, until

TTL_S = 3600.0


def fixed(tenants: Iterable[Tenant]) -> Callable[[], Awaitable[Iterable[Tenant]]]:
    async def now() -> Iterable[Tenant]:
        return tenants

    return now


def retention(objects: ObjectStore, *tenants: Tenant, interval_s: float = 3600.0, now: float = NOON) -> Retention:
    return Retention(objects, fixed(tenants), answers_ttl_s=TTL_S, interval_s=interval_s, unix_time=lambda: now)


def fill(objects: ObjectStore) -> None:
    """Content of two tenants on three days, and an answer of each."""

    async def work() -> None:
        log = ObjectContentLog(objects, ContentSettings())
        shelf = ObjectAnswerShelf(objects, TTL_S, time.time)
        async with log.running():
            for name in ("alpha", "alphabet"):
                for day in range(3):
                    log.keep(content(f"req_{day}", tenant=name, at=NOON - day * DAY_S))
                await shelf.put(name, "ab12", b"answer")

    asyncio.run(work())
    assert len(paths(objects)) == 8


def sweep(one: Retention, now: float) -> int:
    return asyncio.run(one.sweep(now))


def test_days_go_when_their_tenant_s_retention_is_over(objects: ObjectStore) -> None:
    fill(objects)
    one = retention(objects, tenant("alpha", days=1), tenant("alphabet", days=2))
    assert sweep(one, NOON) == 1
    assert sweep(one, NOON) == 0
    assert [path for path in paths(objects) if path.startswith("content")] == [
        "content/alpha/2026-03-14/req_1.json",
        "content/alpha/2026-03-15/req_0.json",
        "content/alphabet/2026-03-13/req_2.json",
        "content/alphabet/2026-03-14/req_1.json",
        "content/alphabet/2026-03-15/req_0.json",
    ]
    assert sweep(one, NOON + 10 * DAY_S) == 5
    assert [path for path in paths(objects) if path.startswith("content")] == []


def test_one_that_opted_out_keeps_what_it_had_until_its_retention_is_over(objects: ObjectStore) -> None:
    fill(objects)
    out = retention(objects, tenant("alpha", days=5, log=False), tenant("alphabet", days=5, log=False))
    assert sweep(out, NOON + DAY_S) == 0
    assert sweep(out, NOON + 9 * DAY_S) == 6


def test_of_a_tenant_that_is_gone_all_goes_and_of_no_other(objects: ObjectStore) -> None:
    fill(objects)
    assert sweep(retention(objects, tenant("alphabet")), NOON) == 4
    assert all("/alphabet/" in path for path in paths(objects))
    assert len(paths(objects)) == 4


def test_forgetting_a_tenant_leaves_the_others(objects: ObjectStore) -> None:
    fill(objects)
    one = retention(objects, tenant("alpha"), tenant("alphabet"))
    assert asyncio.run(one.forget("alpha")) == 4
    assert asyncio.run(one.forget("alpha")) == 0
    assert len(paths(objects)) == 4
    assert all("/alphabet/" in path for path in paths(objects))


def test_answers_go_after_their_time_or_with_the_opt_in(objects: ObjectStore) -> None:
    fill(objects)
    one = retention(objects, tenant("alpha", days=3650), tenant("alphabet", days=3650, replay=False))
    assert sweep(one, time.time()) == 1
    assert [path for path in paths(objects) if path.startswith("replays")] == ["replays/alpha/ab12"]
    assert sweep(one, time.time() + TTL_S + 60) == 1


def test_local_folders_that_are_empty_go_too(tmp_path: Path) -> None:
    objects = open_objects(tmp_path / "o", {})
    fill(objects)
    sweep(retention(objects, tenant("alphabet", days=1)), NOON)
    folders = sorted(
        path.relative_to(tmp_path / "o").as_posix() for path in (tmp_path / "o").rglob("*") if path.is_dir()
    )
    assert folders == [
        "content",
        "content/alphabet",
        "content/alphabet/2026-03-14",
        "content/alphabet/2026-03-15",
        "replays",
        "replays/alphabet",
    ]


def test_nothing_is_deleted_while_the_tenants_are_not_known(folder: ObjectStore) -> None:
    fill(folder)

    async def away() -> Iterable[Tenant]:
        raise StoreUnavailable("the database is away")

    one = Retention(folder, away, answers_ttl_s=TTL_S, interval_s=3600, unix_time=lambda: NOON + 999 * DAY_S)
    with pytest.raises(StoreUnavailable):
        sweep(one, NOON + 999 * DAY_S)
    assert len(paths(folder)) == 8


def test_one_made_while_it_looks_is_not_taken_for_gone(folder: ObjectStore) -> None:
    """Tenants are asked for after the folders: a folder that is seen has its tenant."""
    tenants: list[Tenant] = []

    async def now() -> Iterable[Tenant]:
        if not tenants:
            # As if another gateway had made it, and kept something of it, just before.
            tenants.append(tenant("alpha"))
            folder.put("content/alpha/2026-03-15/req_1.json", b"{}")
        return list(tenants)

    one = Retention(folder, now, answers_ttl_s=TTL_S, interval_s=3600, unix_time=lambda: NOON)
    assert sweep(one, NOON) == 0
    assert sweep(one, NOON) == 0
    assert len(paths(folder)) == 1


def test_it_sweeps_at_its_start_and_again_after_failures(folder: ObjectStore) -> None:
    fill(folder)
    asked = 0

    async def now() -> Iterable[Tenant]:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise StoreUnavailable("the database is away")
        if asked == 2:
            raise ValueError("nobody foresaw this")
        return (tenant("alpha", days=1), tenant("alphabet", days=1))

    one = Retention(folder, now, answers_ttl_s=TTL_S, interval_s=0.01, unix_time=lambda: NOON + 99 * DAY_S)

    async def work() -> None:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(one.run())
            await until(lambda: asked >= 4)
            running.cancel()

    with capture_logs() as logs:
        asyncio.run(work())
    assert [line["log_level"] for line in logs[:3]] == ["warning", "error", "info"]


def test_a_tenant_that_cannot_be_deleted_does_not_hold_up_the_others(tmp_path: Path) -> None:
    objects = open_objects(tmp_path / "o", {})
    fill(objects)

    class Failing:
        """The store, but for what one tenant has."""

        def __getattr__(self, name: str) -> object:
            return getattr(objects, name)

        def delete(self, found: list[str]) -> None:
            if any("/alpha/" in path for path in found):
                raise StoreUnavailable("cannot delete it")
            objects.delete(found)

    one = Retention(Failing(), fixed([]), answers_ttl_s=TTL_S, interval_s=9, unix_time=lambda: NOON)  # pyright: ignore[reportArgumentType]
    with capture_logs() as logs:
        assert sweep(one, NOON) == 4
    assert [line["tenant"] for line in logs if line["log_level"] == "warning"] == ["alpha", "alpha"]
    assert all("/alpha/" in path for path in paths(objects))
