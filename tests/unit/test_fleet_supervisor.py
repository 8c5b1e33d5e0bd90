"""One replica's life, as its supervisor runs it: real tasks, a driver and a prober that do what the test says."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from forebay.core.clock import ManualClock
from forebay.fleet.driver import Ending, LogEnd, ReplicaStartError
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
        self.window: int | None = None
        self._death = asyncio.Event()

    endpoint = ENDPOINT

    async def start(self, name: str) -> "Scripted":
        self.starts += 1
        self._death.clear()
        if self.starts <= self.start_errors:
            raise ReplicaStartError(f"{name} cannot start", permanent=True)
        return self

    async def exited(self) -> Ending:
        await self._death.wait()
        return Ending("died", LogEnd(Path("/logs/r.log"), ("one", "two")))

    async def stop(self) -> None:
        self.stops += 1

    async def probe(self, endpoint: Endpoint) -> None:
        assert endpoint is ENDPOINT
        self.probes += 1
        if not self.healthy:
            raise ProbeError("sick")

    async def windows(self, endpoint: Endpoint) -> dict[str, int | None]:
        if self.window is None:
            raise ProbeError("does not list its models")
        return {"m": self.window, "other": 1}

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


def test_one_that_becomes_ready_tells_its_window() -> None:
    async def life() -> None:
        scripted = Scripted()
        async with supervised(scripted) as (replica, _):
            await reach(lambda: replica.state == "ready")
            assert replica.max_model_len is None
            scripted.window = 2048
            scripted.die()
            await reach(lambda: replica.max_model_len == 2048)

    asyncio.run(life())


def test_the_log_says_why_one_is_gone_and_what_it_wrote_last() -> None:
    async def life() -> None:
        scripted = Scripted()
        async with supervised(scripted) as (replica, _):
            await reach(lambda: replica.state == "ready")
            scripted.die()
            await reach(lambda: replica.restarts == 1)

    with capture_logs() as logs:
        asyncio.run(life())
    (gone,) = [entry for entry in logs if entry["event"] == "replica is gone"]
    assert gone["reason"] == "died"
    assert (gone["log_file"], gone["last_lines"]) == ("/logs/r.log", ["one", "two"])


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


class Faulty(Scripted):
    """Raises what no driver or prober should, once in each place."""

    def __init__(self) -> None:
        super().__init__()
        self.faults = ["start", "exited", "stop", "probe", "windows"]

    def _fault(self, place: str) -> None:
        if place in self.faults:
            self.faults.remove(place)
            raise RuntimeError(place)

    async def start(self, name: str) -> "Scripted":
        started = await super().start(name)
        self._fault("start")
        return started

    async def exited(self) -> Ending:
        self._fault("exited")
        return await super().exited()

    async def stop(self) -> None:
        self._fault("stop")
        await super().stop()

    async def probe(self, endpoint: Endpoint) -> None:
        self._fault("probe")
        await super().probe(endpoint)

    async def windows(self, endpoint: Endpoint) -> dict[str, int | None]:
        self._fault("windows")
        return await super().windows(endpoint)


def test_no_fault_of_a_driver_or_a_prober_ends_the_supervision() -> None:
    async def life() -> None:
        faulty = Faulty()
        async with supervised(faulty) as (replica, supervisor):
            await supervisor.first_start.wait()
            assert "RuntimeError" in replica.detail
            await reach(lambda: not faulty.faults and replica.state == "ready" and replica.reachable)
            assert faulty.starts == 4

    with capture_logs() as logs:
        asyncio.run(life())
    assert [entry["event"] for entry in logs].count("a replica's supervision failed") == 5
