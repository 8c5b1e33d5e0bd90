"""One replica's life, as its supervisor runs it: real tasks, a driver and a prober that do what the test says."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from forebay.core.clock import ManualClock
from forebay.fleet.driver import ReplicaStartError
from forebay.fleet.replica import Endpoint, Replica
from forebay.fleet.settings import FleetSettings
from forebay.fleet.supervisor import ProbeError, Supervisor

ENDPOINT = Endpoint("http://127.0.0.1:1/v1", "m", None, True, "http://127.0.0.1:1/health")
SETTINGS = FleetSettings(
    probe_interval_s=0.001, probe_failures=3, restart_backoff_s=0.001, restart_backoff_max_s=0.002, start_timeout_s=10
)


class Scripted:
    """A driver, its replicas and the prober in one: starts that fail as told, deaths and probe failures at will."""

    def __init__(self, start_errors: int = 0) -> None:
        self.start_errors = start_errors
        self.starts = 0
        self.stops = 0
        self.healthy = True
        self.probes = 0
        self._death = asyncio.Event()

    endpoint = ENDPOINT

    async def start(self, name: str) -> "Scripted":
        self.starts += 1
        self._death.clear()
        if self.starts <= self.start_errors:
            raise ReplicaStartError(f"{name} cannot start", permanent=True)
        return self

    async def exited(self) -> str:
        await self._death.wait()
        return "died"

    async def stop(self) -> None:
        self.stops += 1

    async def probe(self, endpoint: Endpoint) -> None:
        assert endpoint is ENDPOINT
        self.probes += 1
        if not self.healthy:
            raise ProbeError("sick")

    def die(self) -> None:
        self._death.set()


@asynccontextmanager
async def supervised(scripted: Scripted, clock: ManualClock | None = None) -> AsyncIterator[tuple[Replica, Supervisor]]:
    replica = Replica("r")
    supervisor = Supervisor(replica, scripted, scripted, SETTINGS, clock or ManualClock())
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(supervisor.run())
        yield replica, supervisor
        running.cancel()


async def reach(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        # A state that nobody announces, and that some turns of the loop bring about.
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0)


def test_it_becomes_ready_and_is_stopped_at_the_end() -> None:
    async def life() -> None:
        scripted = Scripted()
        async with supervised(scripted) as (replica, supervisor):
            await supervisor.first_start.wait()
            assert (replica.state, replica.reachable, replica.endpoint) == ("ready", True, ENDPOINT)
            assert scripted.stops == 0
        assert scripted.stops == 1
        assert replica.state == "gone"

    asyncio.run(life())


def test_a_death_is_followed_by_a_new_start() -> None:
    async def life() -> None:
        scripted = Scripted()
        async with supervised(scripted) as (replica, _):
            await reach(lambda: replica.state == "ready")
            scripted.die()
            await reach(lambda: replica.state == "gone")
            assert replica.detail == "died"
            await reach(lambda: replica.state == "ready")
            assert (scripted.starts, scripted.stops, replica.restarts) == (2, 1, 1)

    asyncio.run(life())


def test_failing_probes_first_hide_it_and_then_replace_it() -> None:
    async def life() -> None:
        scripted = Scripted()
        async with supervised(scripted) as (replica, _):
            await reach(lambda: replica.state == "ready")
            scripted.healthy = False
            await reach(lambda: not replica.reachable)
            assert (replica.state, replica.detail) == ("ready", "sick")
            await reach(lambda: scripted.starts == 2)
            scripted.healthy = True
            await reach(lambda: replica.state == "ready" and replica.reachable)
            assert scripted.stops == 1

    asyncio.run(life())


def test_one_probe_that_succeeds_brings_a_suspected_one_back() -> None:
    async def life() -> None:
        scripted = Scripted()
        async with supervised(scripted) as (replica, _):
            await reach(lambda: replica.state == "ready")
            probes = scripted.probes
            replica.suspect("refused")
            assert not replica.reachable
            await reach(lambda: replica.reachable)
            assert scripted.probes > probes
            assert scripted.starts == 1

    asyncio.run(life())


def test_a_start_that_fails_is_told_and_tried_again() -> None:
    async def life() -> None:
        scripted = Scripted(start_errors=2)
        async with supervised(scripted) as (replica, supervisor):
            await supervisor.first_start.wait()
            assert supervisor.start_error is not None
            assert replica.endpoint is None
            await reach(lambda: replica.state == "ready")
            assert supervisor.start_error is None
            assert scripted.stops == 0

    asyncio.run(life())


@pytest.mark.parametrize("healthy_after", [False, True])
def test_one_that_never_becomes_healthy_is_replaced_when_its_time_is_over(healthy_after: bool) -> None:
    async def life() -> None:
        clock, scripted = ManualClock(), Scripted()
        scripted.healthy = False
        async with supervised(scripted, clock) as (replica, _):
            await reach(lambda: scripted.probes > 5)
            assert (replica.state, scripted.starts) == ("starting", 1)
            scripted.healthy = healthy_after
            await reach(lambda: replica.reachable == healthy_after)
            clock.advance(SETTINGS.start_timeout_s + 1)
            probes = scripted.probes
            await reach(lambda: scripted.probes > probes + 5)
            assert (scripted.starts > 1) is not healthy_after

    asyncio.run(life())
