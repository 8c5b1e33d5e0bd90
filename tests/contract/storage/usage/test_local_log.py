"""The local usage log on a real disk: what is promised of it, as long as its process lives and after."""

import asyncio
import re
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from forebay.core.clock import ManualClock, SystemClock
from forebay.core.errors import StoreUnavailable
from forebay.metering.closing import recovered
from forebay.metering.settings import MeteringSettings
from forebay.metering.usage import UsageRecord
from forebay.storage.usage import lines
from forebay.storage.usage.inheritance import segments_below
from forebay.storage.usage.local_log import LocalUsageLog
from tests.contract.storage.usage.records import NOON, ended, opened, tokens

QUICK = MeteringSettings(sync_delay_s=0.005, seen_every_s=0.005)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 60))


def records_below(root: Path) -> list[UsageRecord]:
    return [
        msgspec.json.decode(body, type=UsageRecord)
        for segment in segments_below(root)
        for kind, body in lines.lines_of(segment.read_bytes())
        if kind == lines.CLOSED
    ]


def kinds_below(root: Path) -> bytes:
    return b"".join(kind for segment in segments_below(root) for kind, _ in lines.lines_of(segment.read_bytes()))


async def until(condition: Any) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  # of a file, which tells nobody
            await asyncio.sleep(0.005)


def log_at(root: Path, settings: MeteringSettings = QUICK) -> LocalUsageLog:
    return LocalUsageLog(root, settings, SystemClock())


def test_what_is_closed_is_there_at_once_and_whole(tmp_path: Path):
    async def work() -> None:
        async with log_at(tmp_path) as log:
            usage = opened("u1")
            await log.open(usage)
            await log.close(ended(usage))
            assert records_below(tmp_path) == [ended(usage)]

    run(work())


def test_an_id_is_closed_once_and_only_if_it_was_opened(tmp_path: Path):
    async def work() -> None:
        async with log_at(tmp_path) as log:
            usage = opened("u1")
            await log.open(usage)
            await log.close(ended(usage))
            await log.close(ended(usage, tokens(output=99)))
            await log.close(ended(opened("never")))
        assert records_below(tmp_path) == [ended(usage)]

    run(work())


def test_many_that_wait_together_share_a_write_to_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from forebay.storage.usage import segment  # noqa: PLC0415  # the module, whose function is counted here

    syncs: list[int] = []
    really = segment._sync_data
    monkeypatch.setattr(segment, "_sync_data", lambda fd: (syncs.append(fd), really(fd)))

    async def work() -> None:
        async with log_at(tmp_path) as log:
            await asyncio.gather(*(log.open(opened(f"u{n}")) for n in range(200)))
            assert 1 <= len(syncs) <= 3

    run(work())


def test_what_was_open_is_told_to_the_next_process_with_what_was_seen(tmp_path: Path):
    async def work() -> None:
        async with log_at(tmp_path) as log:
            for id_ in ("unseen", "seen", "ended"):
                await log.open(opened(id_))
            log.seen("seen", tokens(output=7), "r1")
            log.seen("seen", tokens(output=9), "r2")
            log.seen("ended", tokens(output=1), "r1")
            log.seen("unknown", tokens(), "r1")
            await until(lambda: b"s" in kinds_below(tmp_path))
            await log.close(ended(opened("ended")))
        async with log_at(tmp_path) as log:
            left = {one.opened.id: one for one in log.recovered()}
            assert log.recovered() == []
            assert left.keys() == {"unseen", "seen"}
            assert left["unseen"].tokens is None
            assert left["seen"] == (opened("seen"), tokens(output=9), "r2")
            for one in left.values():
                await log.close(recovered(*one, now=NOON + 60))
        async with log_at(tmp_path) as log:
            assert log.recovered() == []
        by_id = {record.id: record for record in records_below(tmp_path)}
        assert by_id["seen"].output_tokens == 9
        assert by_id["seen"].status == "recovered"
        assert by_id["unseen"].cost_nanos == 0

    run(work())


def test_two_processes_do_not_share_a_directory_and_one_takes_over_what_the_other_left(tmp_path: Path):
    async def work() -> None:
        async with log_at(tmp_path) as first:
            async with log_at(tmp_path) as second:
                assert first.segment.parent != second.segment.parent
                await first.open(opened("of-first"))
                await second.open(opened("of-second"))
                await second.open(opened("ended"))
                await second.close(ended(opened("ended")))
                await first.adopt()
                assert first.recovered() == []
            await first.adopt()
            assert [one.opened.id for one in first.recovered()] == ["of-second"]
            await first.close(recovered(opened("of-second"), None, None, NOON))
            sealed = first.sealed()
            assert len(sealed) == 1
            async with log_at(tmp_path) as third:
                assert third.recovered() == []
            await first.drop(sealed[0])
            assert not sealed[0].parent.exists()
        async with log_at(tmp_path) as log:
            assert [one.opened.id for one in log.recovered()] == ["of-first"]

    run(work())


@pytest.mark.parametrize("cut", [1, 10, 200])
def test_a_torn_tail_costs_only_itself(tmp_path: Path, cut: int):
    async def work() -> None:
        async with log_at(tmp_path) as log:
            await log.open(opened("u1"))
            await log.close(ended(opened("u1")))
            await log.open(opened("u2"))
        (segment,) = segments_below(tmp_path)
        whole = segment.read_bytes()
        segment.write_bytes(whole[:-cut])
        async with log_at(tmp_path) as log:
            assert log.recovered() == []
            await log.open(opened("u3"))
            await log.close(ended(opened("u3")))
        assert [record.id for record in records_below(tmp_path)] == ["u1", "u3"]

    run(work())


def test_a_damaged_line_costs_only_itself(tmp_path: Path):
    async def work() -> None:
        async with log_at(tmp_path) as log:
            for id_ in ("u1", "u2", "u3"):
                await log.open(opened(id_))
                await log.close(ended(opened(id_)))
        (segment,) = segments_below(tmp_path)
        segment.write_bytes(segment.read_bytes().replace(b'"request-of-u2"', b'"request-of-u9"'))
        assert [record.id for record in records_below(tmp_path)] == ["u1", "u3"]

    run(work())


def test_segments_are_sealed_by_size_and_dropped_with_what_is_open_carried_over(tmp_path: Path):
    small = MeteringSettings(sync_delay_s=0.005, segment_mb=0.01)

    async def work() -> None:
        async with log_at(tmp_path, small) as log:
            await log.open(opened("long"))
            log.seen("long", tokens(output=3), "r")
            for n in range(30):
                await log.open(opened(f"u{n}"))
                await log.close(ended(opened(f"u{n}")))
            await until(lambda: len(log.sealed()) > 1)
            kept = {record.id for record in records_below(tmp_path)}
            assert len(kept) == 30
            for segment in log.sealed():
                await log.drop(segment)
            assert len(segments_below(tmp_path)) < 4
        async with log_at(tmp_path, small) as log:
            assert [(one.opened.id, one.tokens) for one in log.recovered()] == [("long", tokens(output=3))]

    run(work())


def test_segments_are_sealed_by_age(tmp_path: Path):
    clock = ManualClock()

    async def work() -> None:
        async with LocalUsageLog(tmp_path, QUICK, clock) as log:
            clock.advance(10_000)
            await log.open(opened("u1"))
            await log.open(opened("u2"))
            await until(log.sealed)

    run(work())


def test_an_empty_log_leaves_no_file(tmp_path: Path):
    async def work() -> None:
        for _ in range(3):
            async with log_at(tmp_path):
                pass
        assert segments_below(tmp_path) == []

    run(work())


def test_who_leaves_before_the_disk_has_it_was_not_let_in(tmp_path: Path):
    async def work() -> None:
        async with log_at(tmp_path) as log:
            waiting = asyncio.create_task(log.open(opened("u1")))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        async with log_at(tmp_path) as log:
            assert log.recovered() == []

    run(work())


def test_a_directory_that_cannot_be_used_is_told(tmp_path: Path):
    (tmp_path / "file").write_text("")

    async def work() -> None:
        with pytest.raises(StoreUnavailable, match="usage log"):
            async with log_at(tmp_path / "file"):
                pass

    run(work())


def test_a_disk_that_does_not_answer_is_logged_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from forebay.storage.usage import segment  # noqa: PLC0415

    really, answers = segment._sync_data, threading.Event()

    def sync(descriptor: int) -> None:
        answers.wait(60)
        really(descriptor)

    monkeypatch.setattr(segment, "_sync_data", sync)
    settings = msgspec.structs.replace(QUICK, open_timeout_s=0.05)

    async def work() -> None:
        async with LocalUsageLog(tmp_path, settings, SystemClock()) as log:
            try:
                for id_ in ("u1", "u2"):
                    with pytest.raises(StoreUnavailable, match="try again"):
                        await log.open(opened(id_))
            finally:
                answers.set()

    with capture_logs() as logs:
        run(work())
    assert [entry["log_level"] for entry in logs if "did not answer" in entry["event"]] == ["error"]


def test_a_sync_that_fails_lets_nobody_in_and_loses_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from forebay.storage.usage import segment  # noqa: PLC0415

    really = segment._sync_data
    broken = False

    def sync(descriptor: int) -> None:
        if broken:
            raise OSError(5, "Input/output error")
        really(descriptor)

    monkeypatch.setattr(segment, "_sync_data", sync)

    async def work() -> None:
        nonlocal broken
        async with log_at(tmp_path) as log:
            await log.open(opened("u1"))
            broken = True
            await log.close(ended(opened("u1")))
            with capture_logs() as logs:
                for id_ in ("u2-1", "u2-2"):
                    with pytest.raises(StoreUnavailable, match="try again") as refused:
                        await log.open(opened(id_))
                    assert not re.search("(?i)errno|disk|input/output|directory", refused.value.detail)
            (told,) = [entry for entry in logs if "refused" in entry["event"]]
            assert "Input/output" in told["error"]
            broken = False
            for attempt in range(1000):
                try:
                    await log.open(opened(f"u3-{attempt}"))
                except StoreUnavailable:
                    await asyncio.sleep(0.01)
                else:
                    break
        assert {record.id for record in records_below(tmp_path)} == {"u1"}
        async with log_at(tmp_path) as log:
            assert [one.opened.id for one in log.recovered()] == [f"u3-{attempt}"]

    run(work())
