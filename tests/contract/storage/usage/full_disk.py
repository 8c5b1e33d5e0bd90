"""A usage log whose disk fills up: `python -m tests.contract.storage.usage.full_disk ROOT`; says what went wrong."""

import asyncio
import resource
import sys
from pathlib import Path

from forebay.core.clock import SystemClock
from forebay.core.errors import StoreUnavailable
from forebay.metering.settings import MeteringSettings
from forebay.storage.usage.local_log import LocalUsageLog
from tests.contract.storage.usage.records import ended, opened, tokens


def limit(size: int) -> None:
    """No file grows beyond `size` bytes: each write beyond it fails, after a part of it was written."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


async def main(root: Path) -> None:
    settings = MeteringSettings(sync_delay_s=0.005, seen_every_s=0.005)
    async with LocalUsageLog(root, settings, SystemClock()) as log:
        running = [opened(f"r{number}") for number in range(5)]
        for usage in running:
            await log.open(usage)
        # Half of the next line still goes in.
        limit(log.segment.stat().st_size + 200)
        await refused(log, "full")
        limit(0)
        for usage in running:
            log.seen(usage.id, tokens(), "r")
            await log.close(ended(usage))
        await refused(log, "fuller")
        await asyncio.sleep(1.5)
        await refused(log, "fullest")
        limit(resource.RLIM_INFINITY)
        await again(log)


async def refused(log: LocalUsageLog, id_: str) -> None:
    try:
        await log.open(opened(id_))
    except StoreUnavailable:
        return
    raise SystemExit(f"{id_} was let in")


async def again(log: LocalUsageLog) -> None:
    async with asyncio.timeout(20):
        while True:
            try:
                await log.open(opened("after"))
            except StoreUnavailable:
                await asyncio.sleep(0.05)
            else:
                return


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
