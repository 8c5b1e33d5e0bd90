"""What is noted of requests with an `Idempotency-Key`."""

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from forebay.metering.usage import OpenedUsage, UsageRecord
from forebay.serving.metered_run import Ending
from forebay.serving.repeat_book import BilledUsage, FirstRequest
from forebay.serving.repeat_notes import RepeatNotes, running_since
from forebay.serving.request import Repeat
from forebay.storage.counters.repeats import MemoryRepeats
from tests.support.metered import REQUEST, Bench, used

NOW = 1000.0
REPEAT = Repeat("digest", "print")
ASKED = replace(REQUEST, repeat=REPEAT)
PROBE = FirstRequest(request_id="probe", fingerprint="", state="running", alive_until=0.0)


def opened_and_closed(**more: Any) -> tuple[OpenedUsage, UsageRecord]:
    async def run() -> tuple[OpenedUsage, UsageRecord]:
        bench = Bench()
        run = bench.run(ASKED)
        await run.begin()
        await run.end(Ending(status="completed", http_status=200, tokens=used(5), counted="engine"))
        return bench.desk.opened[0], bench.desk.closed[0]

    opened, record = asyncio.run(run())
    return opened, msgspec.structs.replace(record, **more)


def noted(record: UsageRecord | None, *, repeat: Repeat | None = REPEAT) -> FirstRequest | None:
    """What the book says of a request that was running and has ended so."""

    async def run() -> FirstRequest | None:
        book = MemoryRepeats(lambda: NOW)
        await book.claim(REPEAT.digest, running_since(ASKED, REPEAT, NOW), 60.0)
        await RepeatNotes(book, 60.0).ended(replace(ASKED, repeat=repeat), record)
        return await book.claim(REPEAT.digest, PROBE, 60.0)

    return asyncio.run(run())


def test_an_end_is_noted_with_what_was_billed() -> None:
    _, record = opened_and_closed()
    billed = BilledUsage(prompt_tokens=10, cached_tokens=0, completion_tokens=5, cost_usd="0.00002")
    assert noted(record) == FirstRequest(
        request_id="mine", fingerprint="print", state="ended", alive_until=0.0, usage=billed
    )


@pytest.mark.parametrize(
    "more", [{"status": "failed"}, {"status": "failed", "prompt_tokens": 0}, {"prompt_tokens": 0, "output_tokens": 0}]
)
def test_what_has_used_anything_or_has_not_failed_does_not_run_again(more: dict[str, Any]) -> None:
    _, record = opened_and_closed(**more)
    found = noted(record)
    assert found is not None
    assert found.state == "ended"


def test_what_was_turned_away_or_failed_for_nothing_may_be_sent_again() -> None:
    _, failed = opened_and_closed(status="failed", prompt_tokens=0, output_tokens=0)
    assert noted(failed) is None
    assert noted(None) is None


def test_a_request_without_a_key_changes_nothing() -> None:
    found = noted(None, repeat=None)
    assert found is not None
    assert found.state == "running"


def test_what_was_cut_off_is_over_unless_more_is_known_of_it() -> None:
    async def run() -> None:
        opened, record = await asyncio.to_thread(opened_and_closed)
        book = MemoryRepeats(lambda: NOW)
        notes = RepeatNotes(book, 60.0)
        without_key = msgspec.structs.replace(opened, idempotency_hash=None)
        await notes.interrupted([without_key, opened])
        found = await book.claim("digest", PROBE, 60.0)
        assert found is not None
        assert (found.request_id, found.state, found.fingerprint) == ("mine", "running", "")
        assert found.alive_until <= opened.opened_at
        await notes.recall([msgspec.structs.replace(record, idempotency_hash=None), record])
        await notes.interrupted([opened])
        found = await book.claim("digest", PROBE, 60.0)
        assert found is not None
        assert found.state == "ended"

    asyncio.run(run())
