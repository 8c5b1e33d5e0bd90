"""Work for a client lasts no longer than the client stays."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from litestar.types import Receive

T = TypeVar("T")


class DisconnectError(Exception):
    """The client has left; what was being done for it has been cancelled. Nobody is told."""


async def until_disconnect(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end, or cancel it once the client leaves; return after it has ended either way.

    The whole request body must have been read from `receive` before. Raises DisconnectError, or what `work` raises.
    """
    async with asyncio.TaskGroup() as tasks:
        worker = tasks.create_task(_settle(work))
        watcher = tasks.create_task(_cancel_on_disconnect(receive, worker))
        try:
            outcome = await _join(worker)
        finally:
            watcher.cancel()
    if isinstance(outcome, _Raised):
        raise outcome.error
    return outcome


class _Raised:
    def __init__(self, error: Exception) -> None:
        self.error = error


async def _settle(work: Coroutine[Any, Any, T]) -> "T | _Raised":
    """An exception as a value: a task that fails would make its group wrap the exception and hide its type."""
    try:
        return await work
    except Exception as error:
        return _Raised(error)


async def _join(worker: "asyncio.Task[T | _Raised]") -> "T | _Raised":
    await asyncio.wait((worker,))
    return _Raised(DisconnectError()) if worker.cancelled() else worker.result()


async def _cancel_on_disconnect(receive: Receive, worker: "asyncio.Task[Any]") -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    worker.cancel()
