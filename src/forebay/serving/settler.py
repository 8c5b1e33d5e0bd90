"""Ends the runs whose caller is gone, or whose replica broke off: nobody waits for them any more."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Protocol

import structlog

from forebay.fleet.replica import Endpoint
from forebay.metering.usage import NOTHING, TokenUsage, UsageStatus
from forebay.serving.metered_run import Ending, MeteredRun

logger = structlog.get_logger(__name__)

CLIENT_LEFT_STATUS = 499
LAST_MOMENTS_S = 5.0
"""How long runs that were left may take to end while the platform stops."""


class UsageTeller(Protocol):
    """Asks a replica what a request has used; see `fleet.upstream.UpstreamClient`."""

    async def usage_of(self, endpoint: Endpoint, request_id: str) -> TokenUsage | None:
        """Its final usage, waiting until it has ended for a few seconds; None where the replica cannot tell."""
        ...


class Settler:
    """Takes runs over and ends each in a task of its own."""

    def __init__(self, teller: UsageTeller) -> None:
        self._teller = teller
        self._tasks: asyncio.TaskGroup | None = None
        self._ending: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Runs can be left from here on; on leaving, those that were are ended first, a few seconds at most."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                self._tasks = None
                if self._ending:
                    _, late = await asyncio.wait(set(self._ending), timeout=LAST_MOMENTS_S)
                    for task in late:
                        task.cancel()

    def leave(self, run: MeteredRun, status: UsageStatus, http_status: int) -> None:
        """End `run` with what its replica says it has used, or else with what was last seen of it."""
        assert self._tasks is not None, "runs end while the settler is running"
        task = self._tasks.create_task(self._end(run, status, http_status))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _end(self, run: MeteredRun, status: UsageStatus, http_status: int) -> None:
        try:
            if run.ending is not None:
                await run.end(run.ending)
            elif run.endpoint is None:
                await run.turn_away(http_status)
            else:
                await run.end(await self.ending_of(run, run.endpoint, status, http_status))
        # One that cannot be ended must not end all others: its lease expires, its record is recovered.
        except Exception as error:
            logger.error("run not ended", id=run.request.id, error=type(error).__name__)

    async def refused(self, run: MeteredRun, http_status: int) -> None:
        """End a run that got no answer: as one that never ran, unless its replica says that it did."""
        if run.endpoint is not None and http_status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            ending = await self.ending_of(run, run.endpoint, "failed", http_status)
            if ending.tokens != NOTHING:
                await run.end(ending)
                return
        await run.turn_away(http_status)

    async def ending_of(self, run: MeteredRun, endpoint: Endpoint, status: UsageStatus, http_status: int) -> Ending:
        """What has become of a run that a replica has, or had: by its own book where it keeps one."""
        told = await self._teller.usage_of(endpoint, run.request.id)
        if told is not None:
            return Ending(status=status, http_status=http_status, tokens=told, counted="engine")
        return Ending(status=status, http_status=http_status, tokens=run.tokens or NOTHING, counted="last_seen")
