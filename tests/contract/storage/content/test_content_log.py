"""Content is kept under its tenant's prefix, beside the requests."""

import asyncio
import json
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from forebay.serving.content_log import Content
from forebay.storage.content.content_log import ObjectContentLog
from forebay.storage.content.redactors import emails_and_numbers
from forebay.storage.content.settings import ContentSettings
from forebay.storage.objects.opening import open_objects
from forebay.storage.objects.store import ObjectStore
from tests.contract.storage.content.contents import NOON, content, paths, until

SETTINGS = ContentSettings()
SECRET = "canary-7c1f"


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


def keep_all(log: ObjectContentLog, *contents: Content) -> None:
    """Keep them, and stop the log."""

    async def work() -> None:
        async with log.running():
            for one in contents:
                log.keep(one)

    run(work())


def test_each_lies_under_its_tenant_and_day(objects: ObjectStore) -> None:
    log = ObjectContentLog(objects, SETTINGS)
    late = content("req_2", at=NOON + 12 * 3600)
    keep_all(log, content("req_1"), late, content("req_3", tenant="alphabet"))
    assert paths(objects) == [
        "content/alpha/2026-03-15/req_1.json",
        "content/alpha/2026-03-16/req_2.json",
        "content/alphabet/2026-03-15/req_3.json",
    ]
    document = json.loads(objects.get("content/alpha/2026-03-15/req_1.json") or b"")
    assert document["asked"] == {"prompt": "hello"}
    assert document["answered"] == {"text": "yes"}
    assert (log.stored, log.dropped) == (3, 0)


def test_what_comes_before_it_runs_is_kept_and_what_comes_after_is_not(folder: ObjectStore) -> None:
    log = ObjectContentLog(folder, SETTINGS)
    log.keep(content("req_1"))
    keep_all(log, content("req_2"))
    with capture_logs() as logs:
        log.keep(content("req_3", said=SECRET))
    assert len(paths(folder)) == 2
    assert (log.stored, log.dropped) == (2, 1)
    assert SECRET not in str(logs)


def test_nobody_else_may_read_a_local_folder(tmp_path: Path) -> None:
    keep_all(ObjectContentLog(open_objects(tmp_path / "objects", {}), SETTINGS), content())
    top = tmp_path / "objects" / "content"
    modes = {path.relative_to(top.parent).as_posix(): path.stat().st_mode & 0o777 for path in [top, *top.rglob("*")]}
    assert modes == {
        "content": 0o700,
        "content/alpha": 0o700,
        "content/alpha/2026-03-15": 0o700,
        "content/alpha/2026-03-15/req_1.json": 0o600,
    }


def test_what_does_not_fit_is_dropped_without_waiting(folder: ObjectStore) -> None:
    entered, release = threading.Event(), threading.Event()

    def blocking(one: Content) -> Content:
        entered.set()
        assert release.wait(30)
        return one

    log = ObjectContentLog(folder, ContentSettings(queue_mb=0.01), blocking)

    async def work() -> None:
        async with log.running():
            try:
                log.keep(content("req_1"))
                assert await asyncio.to_thread(entered.wait, 30)
                for number in range(2, 60):
                    log.keep(content(f"req_{number}", said=SECRET))
            finally:
                release.set()
            await until(lambda: log.stored + log.dropped == 59)
            log.keep(content("req_60"))

    with capture_logs() as logs:
        run(work())
    assert log.dropped > 0
    assert log.stored + log.dropped == 60
    assert len(paths(folder)) == log.stored
    assert "content/alpha/2026-03-15/req_60.json" in paths(folder)
    told = [line["event"] for line in logs]
    assert told == ["content not kept: too much waits for the object store", "content is kept again"]
    assert SECRET not in str(logs)


def test_stopping_waits_no_longer_than_its_bound(folder: ObjectStore) -> None:
    release = threading.Event()

    def blocking(one: Content) -> Content:
        release.wait(30)
        return one

    log = ObjectContentLog(folder, ContentSettings(drain_timeout_s=0.05), blocking)

    async def work() -> None:
        try:
            async with log.running():
                for number in range(20):
                    log.keep(content(f"req_{number}"))
        finally:
            held = not release.is_set()
            release.set()
        assert held

    with capture_logs() as logs:
        run(work())
    assert log.dropped >= 16
    assert logs[-1]["event"] == "content not kept: the gateway has stopped"


def test_a_store_that_fails_loses_that_content_only(tmp_path: Path) -> None:
    objects = open_objects(tmp_path / "objects", {})
    (tmp_path / "objects" / "content").write_text("in the way")
    log = ObjectContentLog(objects, SETTINGS)

    async def work() -> None:
        async with log.running():
            log.keep(content("req_1", said=SECRET))
            await until(lambda: log.dropped == 1)
            (tmp_path / "objects" / "content").unlink()
            log.keep(content("req_2"))

    with capture_logs() as logs:
        run(work())
    assert (log.stored, log.dropped) == (1, 1)
    assert [(line["event"], line["id"]) for line in logs] == [("content not kept", "req_1")]
    assert SECRET not in str(logs)


def test_a_redactor_changes_what_is_kept(folder: ObjectStore) -> None:
    keep_all(ObjectContentLog(folder, SETTINGS, emails_and_numbers), content(said="I am a@b.example"))
    document = json.loads(folder.get("content/alpha/2026-03-15/req_1.json") or b"")
    assert document["asked"] == {"prompt": "I am [address]"}


def test_a_redactor_cannot_move_it_to_another_tenant(folder: ObjectStore) -> None:
    def moving(one: Content) -> Content:
        return msgspec.structs.replace(one, tenant="other", id="../../other")

    keep_all(ObjectContentLog(folder, SETTINGS, moving), content())
    assert paths(folder) == ["content/alpha/2026-03-15/req_1.json"]


def fails(one: Content) -> Content:
    raise ValueError(f"what is this: {one.asked!r}")


def forgets_to_return(one: Content) -> Any:
    return None


def breaks(one: Content) -> Content:
    return msgspec.structs.replace(one, answered=["text"])  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("redact", [fails, forgets_to_return, breaks])
def test_what_a_redactor_fails_on_is_not_kept(folder: ObjectStore, redact: Any) -> None:
    log = ObjectContentLog(folder, SETTINGS, redact)
    with capture_logs() as logs:
        keep_all(log, content(said=SECRET))
    assert paths(folder) == []
    assert (log.stored, log.dropped) == (0, 1)
    assert [line["event"] for line in logs] == ["content not kept"]
    assert SECRET not in str(logs)
