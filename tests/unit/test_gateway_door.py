"""Who is inside when the gateway stops, and how they get out."""

import asyncio

import pytest

from forebay.core.errors import CapacityUnavailable
from forebay.gateway.door import Door


async def inside(door: Door, entered: asyncio.Event) -> None:
    with door.enter():
        entered.set()
        await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize(("drained", "told"), [(True, CapacityUnavailable), (False, asyncio.CancelledError)])
def test_one_who_is_cancelled_hears_why_only_once_draining_is_over(drained: bool, told: type[BaseException]) -> None:
    async def scenario() -> None:
        door, entered = Door(), asyncio.Event()
        request = asyncio.create_task(inside(door, entered))
        await entered.wait()
        if drained:
            await door.drain(0)
        request.cancel()
        with pytest.raises(told):
            await request

    asyncio.run(scenario())


def test_draining_lets_nobody_in_and_waits_until_all_are_out() -> None:
    async def scenario() -> None:
        door = Door()
        with door.enter():
            draining = asyncio.create_task(door.drain(3600))
            await asyncio.sleep(0)
            assert door.draining
            assert not draining.done()
            with pytest.raises(CapacityUnavailable), door.enter():
                pass
        async with asyncio.timeout(10):
            await draining

    asyncio.run(scenario())
