"""Blocking calls: a few at once, and nobody waits for ever."""

import asyncio
import threading

import pytest

from forebay.administration.threads import Threads
from forebay.core.errors import StoreUnavailable


def test_no_more_than_so_many_at_once() -> None:
    inside, most, lock = 0, 0, threading.Lock()

    def call() -> None:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        with lock:
            inside -= 1

    async def run() -> None:
        threads = Threads(2, 10.0, "test")
        async with asyncio.TaskGroup() as group:
            for _ in range(50):
                group.create_task(threads.run(call))

    asyncio.run(run())
    assert 1 <= most <= 2


def test_whoever_waits_too_long_is_told_so() -> None:
    let_go = threading.Event()

    async def run() -> str:
        threads = Threads(1, 0.02, "test")
        first = asyncio.create_task(threads.run(lambda: let_go.wait(10)))
        await asyncio.sleep(0)
        try:
            with pytest.raises(StoreUnavailable, match="Nothing was changed"):
                await threads.run(lambda: True)
        finally:
            let_go.set()
        assert await first
        return await threads.run(lambda: "again")

    assert asyncio.run(run()) == "again"


def test_a_cancelled_call_keeps_its_turn_until_it_has_ended() -> None:
    let_go, ended = threading.Event(), threading.Event()

    def call() -> None:
        let_go.wait(10)
        ended.set()

    async def run() -> bool:
        threads = Threads(1, 10.0, "test")
        first = asyncio.create_task(threads.run(call))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        second = asyncio.create_task(threads.run(ended.is_set))
        await asyncio.sleep(0)
        let_go.set()
        return await second

    assert asyncio.run(run())
