"""Books whose disk fills up, warehouse and all: `python -m tests.contract.storage.usage.full_warehouse ROOT`; says what
went wrong.
"""

import asyncio
import resource
import sys
from collections.abc import Callable
from pathlib import Path

from forebay.core.errors import StoreUnavailable
from forebay.storage.objects.opening import open_objects
from forebay.storage.usage.tail import closed_records
from forebay.storage.usage.upkeep import Upkeep
from tests.contract.storage.usage.books import QUICK, Books, open_books
from tests.contract.storage.usage.full_disk import limit, refused
from tests.contract.storage.usage.records import DAY_S, NOON, ended, opened, tokens

IDS = [f"r{number}" for number in range(5)]
SEVERAL_ROUNDS_S = 3.0


async def main(root: Path) -> None:
    async with open_books(root, open_objects(root / "objects", {}), QUICK) as books:
        usages = [opened(id_, tags={"n": id_}) for id_ in IDS]
        await put_twice(books)
        for usage in usages:
            await books.log.open(usage)
        await until(lambda: len(books.log.sealed()) > 0)
        limit(0)
        loop = asyncio.create_task(books.shipper.run())
        for usage in usages:
            books.log.seen(usage.id, tokens(), "r")
            await books.log.close(ended(usage))
        await refused(books.log, "full")
        await nothing_is_written(books)
        await asyncio.sleep(SEVERAL_ROUNDS_S)
        assert books.log.fails
        assert not loop.done(), "the loop goes on"
        loop.cancel()
        limit(resource.RLIM_INFINITY)
        # By itself: nobody asks for anything.
        await until(lambda: not books.log.fails)
        await books.shipper.ship()
        upkeep(books)
        assert await books.ids() == dict.fromkeys([*IDS, "early"], 1)


async def put_twice(books: Books) -> None:
    """Two files of one day for the upkeep, of the same record."""
    early = opened("early", tags={"n": "early"}, opened_at=NOON - 30 * DAY_S)
    await books.book(early, ended(early))
    records = closed_records(books.log.segment.read_bytes())
    for name in ("one", "two"):
        books.partitions.put_records(books.duck, records, name)


async def nothing_is_written(books: Books) -> None:
    """Each says so in the platform's own terms."""
    for work in (lambda: books.partitions.put_records(books.duck, b"{}\n", "full"), lambda: upkeep(books)):
        try:
            work()
        except StoreUnavailable:
            continue
        raise SystemExit("it was written")
    try:
        await books.ids()
    except StoreUnavailable:
        return
    raise SystemExit("a report was made without room for it")


def upkeep(books: Books) -> None:
    Upkeep(books.partitions, books.duck, None, lambda: NOON).once()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110  # nobody tells of it
            await asyncio.sleep(0.02)


if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(main(Path(sys.argv[1])), 60))
