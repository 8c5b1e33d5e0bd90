"""Keeps one replica up: start, probe, replace, wait, again."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

import structlog

from forebay.core.clock import Clock
from forebay.fleet.backoff import early_deaths_after, restart_wait_s
from forebay.fleet.driver import Ending, PoolDriver, ReplicaStartError, RunningReplica
from forebay.fleet.replica import Endpoint, Replica
from forebay.fleet.settings import FleetSettings

logger = structlog.get_logger(__name__)


class ProbeError(Exception):
    """A replica did not say that it is well; the message says what it did instead."""


class Prober(Protocol):
    async def probe(self, endpoint: Endpoint) -> None:
        """Ask a replica for its health, within the probe timeout. Raises ProbeError."""
        ...

    async def windows(self, endpoint: Endpoint) -> dict[str, int | None]:
        """The models that it lists, each with its prompt plus output tokens where it tells; likewise."""
        ...


class Supervisor:
    """The one owner of a replica's state."""

    def __init__(
        self, replica: Replica, driver: PoolDriver, prober: Prober, settings: FleetSettings, clock: Clock
    ) -> None:
        self._replica = replica
        self._driver = driver
        self._prober = prober
        self._settings = settings
        self._clock = clock
        self._ready_at: float | None = None
        self.first_start = asyncio.Event()
        """Set when the first start has ended, well or not."""
        self.start_error: ReplicaStartError | None = None
        """How the last start failed, if it did."""

    async def run(self) -> None:
        """Until cancelled; then the replica is stopped."""
        deaths = 0
        while True:
            self._ready_at = None
            ending = await self._ending_of(self._live_once())
            ready_s = 0.0 if self._ready_at is None else self._clock.now() - self._ready_at
            deaths = early_deaths_after(self._settings, deaths, ready_s)
            wait_s = restart_wait_s(self._settings, deaths)
            self._set_gone(ending.reason)
            written = (
                {} if ending.log is None else {"log_file": str(ending.log.file), "last_lines": list(ending.log.lines)}
            )
            logger.warning(
                "replica is gone", replica=self._replica.name, reason=ending.reason, restart_in_s=wait_s, **written
            )
            await asyncio.sleep(wait_s)
            self._replica.restarts += 1

    async def _ending_of(self, life: Coroutine[Any, Any, Ending]) -> Ending:
        """How `life` ended; a fault that nobody foresaw is an end like any other, so that no replica suffers from
        another's.
        """
        try:
            return await life
        except Exception as error:
            logger.exception("a replica's supervision failed", replica=self._replica.name)
            why = f"{self._replica.name} failed unexpectedly ({type(error).__name__}); the log has the details."
            self._replica.reachable, self._replica.detail = False, why
            self.first_start.set()
            return Ending(why)

    async def _live_once(self) -> Ending:
        """One life of the replica; returns why it ended."""
        replica = self._replica
        replica.state, replica.detail, replica.reachable = "starting", "starting", False
        try:
            running = await self._driver.start(replica.name)
        except ReplicaStartError as error:
            self.start_error = error
            self.first_start.set()
            return Ending(str(error), error.log)
        self.start_error = None
        replica.endpoint = running.endpoint
        try:
            return await self._watch(running)
        finally:
            replica.state, replica.reachable = "draining", False
            await running.stop()
            replica.state = "gone"

    async def _watch(self, running: RunningReplica) -> Ending:
        """Until the replica exits or counts as hung; returns which."""
        async with asyncio.TaskGroup() as tasks:
            # Neither raises: a group that fails would cancel this task, too.
            lives = (running.exited(), self._probe_until_lost(running.endpoint))
            endings = {tasks.create_task(self._ending_of(life)) for life in lives}
            ended, others = await asyncio.wait(endings, return_when=asyncio.FIRST_COMPLETED)
            for task in others:
                task.cancel()
            return ended.pop().result()

    async def _probe_until_lost(self, endpoint: Endpoint) -> Ending:
        replica, failures, began = self._replica, 0, self._clock.now()
        while True:
            try:
                await self._prober.probe(endpoint)
            except ProbeError as error:
                failures += 1
                self._set_unreachable(str(error))
                if replica.state == "ready" and failures >= self._settings.probe_failures:
                    return Ending(f"{failures} health probes in a row failed: {error}")
                if replica.state == "starting" and self._clock.now() - began > self._settings.start_timeout_s:
                    return Ending(f"not healthy {self._settings.start_timeout_s:g} s after its start: {error}")
            else:
                failures = 0
                if self._set_ready():
                    replica.max_model_len = await self._window(endpoint)
            self.first_start.set()
            await self._next_probe()

    async def _next_probe(self) -> None:
        """Until the interval has passed, or a request could not reach the replica after the last probe."""
        self._replica.suspected.clear()
        try:
            async with asyncio.timeout(self._settings.probe_interval_s):
                await self._replica.suspected.wait()
        except TimeoutError:
            return

    async def _window(self, endpoint: Endpoint) -> int | None:
        """What the replica says of its model's window, if anything."""
        try:
            return (await self._prober.windows(endpoint)).get(endpoint.model)
        except ProbeError:
            return None

    def _set_ready(self) -> bool:
        """Returns whether it was not ready before."""
        replica = self._replica
        became = replica.state != "ready"
        if became:
            self._ready_at = self._clock.now()
            logger.debug("replica is ready", replica=replica.name)
        replica.state, replica.reachable, replica.detail = "ready", True, ""
        return became

    def _set_unreachable(self, why: str) -> None:
        replica = self._replica
        if replica.detail != why:
            logger.warning("replica is not healthy", replica=replica.name, state=replica.state, reason=why)
        replica.reachable, replica.detail = False, why

    def _set_gone(self, reason: str) -> None:
        replica = self._replica
        replica.state, replica.reachable, replica.detail, replica.endpoint = "gone", False, reason, None
