"""Blocking calls beside the event loop, a few at a time."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

from forebay.core.errors import StoreUnavailable

T = TypeVar("T")


class Threads:
    """`most` calls at once, in threads that nothing else waits for; whoever waits longer than `patience_s` for its turn
    gets StoreUnavailable. To be closed.
    """

    def __init__(self, most: int, patience_s: float, name: str) -> None:
        self._pool = ThreadPoolExecutor(most, thread_name_prefix=name)
        self._turns = asyncio.Semaphore(most)
        self._patience_s = patience_s

    async def run(self, call: Callable[[], T]) -> T:
        """The result of `call`. Raises what it raises, StoreUnavailable where its turn did not come."""
        try:
            async with asyncio.timeout(self._patience_s):
                await self._turns.acquire()
        except TimeoutError:
            raise StoreUnavailable(
                f"The configuration's database is busy: the turn did not come within {self._patience_s:g} s. Nothing "
                "was changed; try again.",
                retry_after_s=1.0,
            ) from None
        try:
            running = asyncio.get_running_loop().run_in_executor(self._pool, copy_context().run, call)
        except BaseException:
            self._turns.release()
            raise
        # A thread cannot be stopped: where the caller is cancelled, it keeps its turn until it has ended.
        running.add_done_callback(self._ended)
        return await asyncio.shield(running)

    def close(self) -> None:
        """No more calls. Those that run go on to their end, which is not waited for."""
        self._pool.shutdown(wait=False)

    def _ended(self, running: asyncio.Future[Any]) -> None:
        self._turns.release()
        if not running.cancelled():
            running.exception()
