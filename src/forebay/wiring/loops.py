"""Loops that run for as long as the platform does."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from types import FrameType
from typing import Any

import structlog

from forebay.core.errors import ConfigurationError

AGAIN_S = 5.0
logger = structlog.get_logger(__name__)

Loop = Callable[[], Coroutine[Any, Any, None]]


@asynccontextmanager
async def running(*loops: Loop, again_s: float = AGAIN_S) -> AsyncGenerator[None]:
    """Each in a task of its own, cancelled on leaving. One that fails is begun again after `again_s` seconds: what
    nobody foresaw in one place must not end all others. Only ConfigurationError is raised: it does not pass by itself.
    """
    async with asyncio.TaskGroup() as tasks:
        started = [tasks.create_task(_kept_up(loop, again_s)) for loop in loops]
        try:
            yield
        finally:
            for task in started:
                task.cancel()


async def _kept_up(loop: Loop, again_s: float) -> None:
    task = asyncio.current_task()
    assert task is not None, "coroutines run in tasks"
    # One that fails in its last moments is not begun again.
    while not task.cancelling():
        try:
            await loop()
            return
        except ConfigurationError:
            raise
        except Exception as error:
            kind, place = _what_and_where(error)
            # Not its message, which may quote what is nobody's business.
            logger.error("a loop failed; it is begun again", kind=kind, place=place, in_s=again_s)
        if not task.cancelling():
            await asyncio.sleep(again_s)


def _what_and_where(error: BaseException) -> tuple[str, str]:
    """The kind of an error, of a group's first; and the innermost place in our own code that it came through."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    place, trace = "unknown", error.__traceback__
    while trace is not None:
        if _is_ours(trace.tb_frame) or place == "unknown":
            place = f"{trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"{type(error).__module__}.{type(error).__qualname__}", place


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).startswith("forebay.")
