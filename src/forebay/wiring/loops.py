"""Loops that run for as long as the platform does."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def running(*loops: Coroutine[Any, Any, None]) -> AsyncGenerator[None]:
    """Each in a task of its own, cancelled on leaving."""
    async with asyncio.TaskGroup() as tasks:
        started = [tasks.create_task(loop) for loop in loops]
        try:
            yield
        finally:
            for task in started:
                task.cancel()
