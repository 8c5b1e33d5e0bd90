"""The books: what was written down once is counted once, wherever it lies."""

import asyncio
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from forebay.core.calendar import month_bounds
from forebay.core.errors import InvalidRequest, StoreUnavailable
from forebay.metering.report import Spent, spent_in
from forebay.metering.usage import UsageRecord
from forebay.storage.objects.opening import open_objects
from forebay.storage.objects.store import ObjectStore
from forebay.storage.usage.tail import closed_records
from forebay.storage.usage.upkeep import Upkeep
from tests.contract.storage.usage.books import FOREVER, QUICK, Books, open_books
from tests.contract.storage.usage.records import DAY_S, NOON, ended, opened, tokens
from tests.support.servers.s3 import S3Server, s3_server


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture(params=["folder", "s3"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "folder":
        return open_objects(tmp_path / "objects", {})
    server: S3Server = request.getfixturevalue("s3")
    return open_objects(f"s3://forebay/{tmp_path.name}", server.options)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 120))


async def book(books: Books, id_: str, at: float = NOON, output: int = 25, **fields: Any) -> None:
    usage = opened(id_, **{"opened_at": at, "tags": {"n": id_}, **fields})
    await books.book(usage, ended(usage, tokens(output=output)))


async def sealed(books: Books, count: int) -> None:
    async with asyncio.timeout(20):
        while len(books.log.sealed()) < count:  # noqa: ASYNC110  # nobody tells of it
            await asyncio.sleep(0.005)


def test_usage_counts_at_once_and_once_on_its_way_to_the_warehouse(tmp_path: Path, objects: ObjectStore):
    async def work() -> None:
        async with open_books(tmp_path, objects) as books:
            await book(books, "u1")
            assert await books.ids() == {"u1": 1}
            await sealed(books, 1)
            assert await books.ids() == {"u1": 1}
            segment = books.log.sealed()[0]
            books.partitions.put_records(books.duck, closed_records(segment.read_bytes()), segment.stem)
            assert await books.ids() == {"u1": 1}, "a crash before the segment is dropped doubles nothing"
            await books.shipper.ship()
            assert books.log.sealed() == ()
            assert await books.ids() == {"u1": 1}
            assert len(books.partitions.all()) == 1

    run(work())


def test_a_record_comes_back_as_it_was(tmp_path: Path, objects: ObjectStore):
    async def work() -> None:
        usage = opened("u1", idempotency_hash="hash", fallback=True)
        lost = opened("u2", idempotency_hash="other", price_version=None, stream=False)
        records = [
            ended(usage),
            ended(
                lost, ended_at=NOON + 5, ttft_s=None, tpot_s=None, queue_wait_s=None, status="failed", http_status=502
            ),
        ]
        async with open_books(tmp_path, objects) as books:
            await books.book(usage, records[0])
            await books.book(lost, records[1])
            await book(books, "without-key")
            assert await books.warehouse.repeatable(NOON) == records
            await sealed(books, 2)
            await books.shipper.ship()
            assert await books.warehouse.repeatable(NOON) == records
            assert await books.warehouse.repeatable(NOON + 4) == records[1:]

    run(work())


def test_sums_by_group_and_half_open_in_time(tmp_path: Path, objects: ObjectStore):
    async def work() -> None:
        async with open_books(tmp_path, objects) as books:
            midnight = NOON + DAY_S / 2
            # They end two seconds after they begin: the second just before midnight, the third at it.
            await book(books, "u1", at=NOON, output=1)
            await book(books, "u2", at=midnight - 2.0000005, output=10, tenant="other")
            await book(books, "u3", at=midnight - 2, output=100, tags={})
            await sealed(books, 1)
            await books.shipper.ship()
            ask = books.warehouse.query

            rows = await ask(*FOREVER, ["day"], {})
            assert [(row.group, row.requests, row.output_tokens) for row in rows] == [
                ({"day": "2025-11-30"}, 2, 11),
                ({"day": "2025-12-01"}, 1, 100),
            ]
            rows = await ask(NOON, midnight, ["month", "tenant", "hour"], {})
            assert [row.group for row in rows] == [
                {"month": "2025-11", "tenant": "acme", "hour": "2025-11-30T12:00Z"},
                {"month": "2025-11", "tenant": "other", "hour": "2025-11-30T23:00Z"},
            ]
            assert [row.output_tokens for row in await ask(midnight, FOREVER[1], [], {})] == [100]
            rows = await ask(*FOREVER, ["tag:n"], {"tenant": "acme"})
            assert [row.group["tag:n"] for row in rows] == ["u1", None]
            (row,) = await ask(*FOREVER, [], {"tag:n": "u2", "status": "completed"})
            assert (row.requests, row.prompt_tokens, row.cached_tokens, row.output_tokens) == (1, 100, 40, 10)
            assert row.cost_nanos == ended(opened("u2"), tokens(output=10)).cost_nanos
            assert (row.ttft_mean_s, row.ttft_p50_s, row.tpot_p95_s) == (0.25, 0.25, 0.05)
            (nothing,) = await ask(0, 1, [], {})
            assert (nothing.requests, nothing.cost_nanos, nothing.ttft_p95_s) == (0, 0, None)
            assert await ask(0, 1, ["tenant"], {}) == []

    run(work())


def test_records_come_page_after_page_each_once(tmp_path: Path, objects: ObjectStore):
    async def work() -> None:
        async with open_books(tmp_path, objects) as books:
            usages = [opened(f"u{number}", opened_at=NOON + number // 3) for number in range(10)]
            for usage in reversed(usages):
                await books.book(usage, ended(usage))
            everything = [ended(usage) for usage in usages]
            await sealed(books, 4)
            first = books.log.sealed()[0]
            books.partitions.put_records(books.duck, closed_records(first.read_bytes()), first.stem)

            async def page(after: str | None, limit: int = 4, **where: str) -> list[UsageRecord]:
                return await books.warehouse.records(*FOREVER, where, after=after, limit=limit)

            assert await page(None, 100) == everything
            assert await page(None) == everything[:4]
            assert await page("u3") == everything[4:8]
            assert await page("u7") == everything[8:]
            assert await page("u9") == []
            assert await page("u3", tenant="acme") == everything[4:8]
            assert await page(None, tenant="other") == []
            assert await books.warehouse.records(NOON + 3, NOON + 4, {}, after=None, limit=100) == everything[3:6]
            with pytest.raises(InvalidRequest, match="has that id"):
                await page("u10")
            with pytest.raises(InvalidRequest, match="has that id"):
                await page("u3", tenant="other")
            with pytest.raises(InvalidRequest, match="colour"):
                await page(None, colour="red")

    run(work())


@pytest.mark.parametrize(
    ("start", "end", "group_by", "where", "says"),
    [
        (0, 1, ["colour"], {}, "colour.*known are tenant"),
        (0, 1, ["tag:"], {}, "known are"),
        (0, 1, ["tenant", "tenant"], {}, "once"),
        (0, 1, [], {"colour": "red"}, "colour"),
        (2, 1, [], {}, "`to` not before"),
        (float("nan"), 1, [], {}, "times"),
        (0, float("inf"), [], {}, "times"),
    ],
)
def test_questions_that_make_no_sense_are_refused(
    tmp_path: Path, start: float, end: float, group_by: list[str], where: dict[str, str], says: str
):
    async def work() -> None:
        async with open_books(tmp_path, open_objects(tmp_path / "objects", {})) as books:
            with pytest.raises(InvalidRequest, match=says):
                await books.warehouse.query(start, end, group_by, where)

    run(work())


def test_hostile_names_are_only_names(tmp_path: Path):
    evil = "'] FROM x; DROP TABLE y; -- \" $1 \x00"

    async def work() -> None:
        async with open_books(tmp_path / "it's", open_objects(tmp_path / "o'clock", {})) as books:
            await book(books, "u1", tags={evil: evil}, tenant=evil)
            await sealed(books, 1)
            await books.shipper.ship()
            rows = await books.warehouse.query(*FOREVER, [f"tag:{evil}", "tenant"], {f"tag:{evil}": evil})
            assert [(row.group, row.requests) for row in rows] == [({f"tag:{evil}": evil, "tenant": evil}, 1)]

    run(work())


def test_a_months_cost_is_split_exactly_between_prompts_and_outputs(tmp_path: Path, objects: ObjectStore):
    async def work() -> None:
        async with open_books(tmp_path, objects) as books:
            for number in range(7):
                await book(books, f"u{number}", output=number, tenant="=acme" if number % 2 else "beta")
            await book(books, "next-month", at=NOON + DAY_S)
            rows = await books.warehouse.query(*month_bounds("2025-11"), ("tenant",), {})
            assert [row.group["tenant"] for row in rows] == ["=acme", "beta"]
            assert sum(row.requests for row in rows) == 7
            acme = rows[0]
            # 60 uncached and 40 cached tokens at their own prices; output at its own, whatever is in the rest.
            prompt = acme.prompt_nanos * 10**6 // acme.prompt_tokens
            output = (acme.cost_nanos - acme.prompt_nanos) * 10**6 // acme.output_tokens
            assert abs(prompt - (60 * 410_000_001 + 40 * 41_000_000) // 100) < 10**5
            assert abs(output - 980_000_000) < 10**6
            assert await spent_in(books.warehouse, "2025-12") == [
                Spent(tenant="acme", alias="assistant", key="key-1", nanos=ended(opened("x")).cost_nanos)
            ]

    run(work())


def test_days_that_are_over_are_merged_and_old_ones_deleted(tmp_path: Path, objects: ObjectStore):
    async def work() -> None:
        async with open_books(tmp_path, objects) as books:
            for number in range(4):
                await book(books, f"old{number}", at=NOON - 40 * DAY_S)
                await book(books, f"u{number}")
                await book(books, f"today{number}", at=NOON + DAY_S)
                await sealed(books, 1)
                await books.shipper.ship()
            everything = await books.ids()
            assert set(everything.values()) == {1}
            keep = Upkeep(books.partitions, books.duck, None, lambda: NOON + DAY_S)
            keep.once()
            assert await books.ids() == everything
            files = [part.path.split("/")[1] for part in books.partitions.all()]
            assert files.count("date=2025-11-30") == 1
            assert files.count("date=2025-12-01") > 1
            before = books.partitions.all()
            keep.once()
            assert books.partitions.all() == before
            Upkeep(books.partitions, books.duck, 32, lambda: NOON + DAY_S).once()
            assert await books.ids() == {id_: 1 for id_ in everything if not id_.startswith("old")}

    run(work())


def test_a_merge_that_was_cut_short_doubles_nothing(tmp_path: Path, objects: ObjectStore):
    async def work() -> None:
        async with open_books(tmp_path, objects) as books:
            for number in range(3):
                await book(books, f"u{number}")
                await sealed(books, 1)
                await books.shipper.ship()
            sources = [(part.path, objects.get(part.path)) for part in books.partitions.all()]
            keep = Upkeep(books.partitions, books.duck, None, lambda: NOON + DAY_S)
            keep.once()
            for path, content in sources:
                assert content is not None
                objects.put(path, content)
            assert await books.ids() == {f"u{number}": 1 for number in range(3)}
            keep.once()
            assert len(books.partitions.all()) == 1
            assert await books.ids() == {f"u{number}": 1 for number in range(3)}

    run(work())


def test_reading_goes_on_while_files_are_merged(tmp_path: Path, objects: ObjectStore):
    async def work() -> None:
        async with open_books(tmp_path, objects, cache_bytes=2000) as books:
            keep = Upkeep(books.partitions, books.duck, None, lambda: NOON + DAY_S)
            expected: dict[str, int] = {}
            for number in range(5):
                await book(books, f"u{number}")
                expected[f"u{number}"] = 1
                await sealed(books, 1)
                await books.shipper.ship()
                merging = asyncio.create_task(asyncio.to_thread(keep.once))
                while not merging.done():
                    assert await books.ids() == expected
                await merging
            assert len(books.partitions.all()) == 1

    run(work())


def test_what_a_dead_process_left_counts_and_is_shipped_by_the_next(tmp_path: Path, objects: ObjectStore):
    async def work() -> None:
        async with open_books(tmp_path, objects) as books:
            await book(books, "u1")
            await book(books, "u2")
        async with open_books(tmp_path, objects) as books:
            assert await books.ids() == {"u1": 1, "u2": 1}
            await books.shipper.ship()
            assert books.log.sealed() == ()
            assert await books.ids() == {"u1": 1, "u2": 1}

    run(work())


def test_two_gateways_of_a_machine_see_each_others_usage_at_once(tmp_path: Path):
    objects = open_objects(tmp_path / "objects", {})

    async def work() -> None:
        async with open_books(tmp_path, objects) as one, open_books(tmp_path, objects) as other:
            await book(one, "u1")
            assert await other.ids() == {"u1": 1}

    run(work())


def test_storage_that_is_gone_is_told_and_nothing_is_lost(tmp_path: Path):
    async def work() -> None:
        with s3_server() as server:
            objects = open_objects("s3://forebay/usage-test", server.options, timeout_s=2)
            endpoint = server.options
        async with open_books(tmp_path, objects, QUICK) as books:
            await book(books, "u1")
            await sealed(books, 1)
            with pytest.raises(StoreUnavailable, match="s3://forebay"):
                await books.shipper.ship()
            with pytest.raises(StoreUnavailable, match="s3://forebay"):
                await books.ids()
            assert len(books.log.sealed()) == 1
            assert endpoint["secret_access_key"] not in str(books)

    run(work())
