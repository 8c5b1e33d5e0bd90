"""A gateway's books at work: `python -m tests.contract.storage.usage.working ROOT NAME`, until it is killed.

Says that it is `ready NAME`, then what it was promised, a line each, after it was: `opened ID`, `closed ID`.
"""

import asyncio
import random
import sys
from pathlib import Path

from forebay.metering.closing import recovered
from forebay.storage.objects.opening import open_objects
from forebay.storage.usage.shipping import Shipper
from tests.contract.storage.usage.books import Books, open_books
from tests.contract.storage.usage.records import NOON, ended, opened, tokens

LIFETIME_S = 60.0


def say(what: str, id_: str) -> None:
    sys.stdout.write(f"{what} {id_}\n")
    sys.stdout.flush()


async def requests(books: Books, name: str, worker: int) -> None:
    for number in range(100_000):
        id_ = f"{name}-{worker}-{number}"
        usage = opened(id_, tags={"n": id_})
        await books.log.open(usage)
        say("opened", id_)
        for output in range(random.randrange(4)):
            books.log.seen(id_, tokens(output=output), "r")
            await asyncio.sleep(random.random() * 0.01)
        await books.log.close(ended(usage))
        say("closed", id_)


async def ship(shipper: Shipper) -> None:
    while True:
        await shipper.ship()
        await asyncio.sleep(0.01)


async def main(root: Path, name: str) -> None:
    async with open_books(root, open_objects(root / "objects", {})) as books:
        say("ready", name)
        for one in books.log.recovered():
            await books.log.close(recovered(*one, now=NOON + 60))
            say("recovered", one.opened.id)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(ship(books.shipper))
            for worker in range(4):
                tasks.create_task(requests(books, name, worker))


if __name__ == "__main__":
    asyncio.run(asyncio.wait_for(main(Path(sys.argv[1]), sys.argv[2]), LIFETIME_S))
