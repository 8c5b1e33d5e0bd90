"""One run: all gateways behind the same upstream, measured in turns."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace

import msgspec

from benchmarks.engine.peers.ours import this_tree
from benchmarks.engine.ports import free_port
from benchmarks.engine.processes import GuardedProcess, PeerFailedError
from benchmarks.engine.work import WORK
from benchmarks.gateway.gateways.base import Cores, Gateway, Target
from benchmarks.gateway.load_plan import Arrivals, LoadPlan, LoadResult
from benchmarks.gateway.pinned_server import FOLDER, RunningServer, on_core, pinned_server
from benchmarks.gateway.upstream import INTERVAL_S

DIRECT = "direct"
"""The upstream without a gateway: what the load generator and the upstream take themselves."""

_LOADER_EXTRA_S = 60.0
"""More than the load generator itself gives to answers that are late."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured. Times in seconds."""

    rounds: int
    closed_s: float
    open_s: float
    streams_s: float
    warm_up_s: float
    connections: int
    """Callers of the closed load."""
    streams: tuple[int, ...]
    """How many at a time; each number is a load of its own."""
    chunks: int
    arrivals: Arrivals


@dataclass(frozen=True, slots=True)
class Load:
    """One load on one gateway, and the same load directly where it was tried. CPU in seconds."""

    seen: LoadResult
    gateway_cpu_s: float
    upstream_cpu_s: float
    helper_cpu_s: float
    rate: float = 0.0
    """Requests a second that were to arrive (open load)."""
    direct: LoadResult | None = None


@dataclass(slots=True)
class Measured:
    """All of one gateway, one entry a round; streams by how many there were at a time."""

    closed: list[Load] = field(default_factory=list)
    opened: list[Load] = field(default_factory=list)
    streams: dict[int, list[Load]] = field(default_factory=dict)


class Run:
    """The targets, and what was seen of each."""

    def __init__(self, sizes: Sizes, cores: Cores, bodies: Sequence[str], stream_bodies: Sequence[str]) -> None:
        self._sizes = sizes
        self._cores = cores
        self._bodies = list(bodies)
        self._stream_bodies = list(stream_bodies)
        self._seed = 0
        self.measured: dict[str, Measured] = {DIRECT: Measured()}
        self.failed: dict[str, str] = {}

    async def run(self, gateways: Sequence[Gateway]) -> None:
        """Start everything, then take rounds; a gateway that fails is left out from there, with its reason."""
        async with AsyncExitStack() as held:
            upstream = await held.enter_async_context(upstream_server(self._cores.rest))
            targets: dict[str, Target] = {}
            for gateway in gateways:
                print(f"start {gateway.name}", flush=True)
                with self._noting_failure(gateway.name):
                    target = await held.enter_async_context(gateway.running(upstream.port, self._cores))
                    await self._warm_up(target, upstream)
                    targets[gateway.name] = target
                    self.measured[gateway.name] = Measured()
            for number in range(self._sizes.rounds):
                await self._round(number, upstream, targets)

    async def _warm_up(self, target: Target, upstream: RunningServer) -> None:
        """Nothing of it is kept, but it must go well. Raises PeerFailedError."""
        duration_s, count = self._sizes.warm_up_s, self._sizes.streams[0]
        for plan in (self._closed(target, duration_s), self._streams(target, duration_s, count)):
            seen = (await self._load(plan, target, upstream)).seen
            if seen.failed or not seen.good:
                raise PeerFailedError(f"of its first requests {seen.good} went well and others did not: {seen.errors}")

    async def _round(self, number: int, upstream: RunningServer, targets: Mapping[str, Target]) -> None:
        direct, alone = Target(upstream, {}), self.measured[DIRECT]
        alone.closed.append(await self._load(self._closed(direct, self._sizes.closed_s / 2), direct, upstream))
        for count in self._sizes.streams:
            plan = self._streams(direct, self._sizes.streams_s, count)
            alone.streams.setdefault(count, []).append(await self._load(plan, direct, upstream))
        # Who comes first changes, so that nobody always has the machine as the same neighbour left it.
        names = [name for name in targets if name not in self.failed]
        start = number % max(len(names), 1)
        for name in names[start:] + names[:start]:
            with self._noting_failure(name):
                await self._measure(name, number, targets[name], upstream)

    async def _measure(self, name: str, number: int, target: Target, upstream: RunningServer) -> None:
        direct, found = Target(upstream, {}), self.measured[name]
        closed = await self._load(self._closed(target, self._sizes.closed_s), target, upstream)
        half = closed.seen.good / closed.seen.elapsed_s / 2
        if not half:
            raise PeerFailedError(f"no request went well: {closed.seen.errors}")
        without = await self._load(self._open(direct, half), direct, upstream)
        opened = await self._load(self._open(target, half), target, upstream)
        streams = {
            count: await self._load(self._streams(target, self._sizes.streams_s, count), target, upstream)
            for count in self._sizes.streams
        }
        found.closed.append(closed)
        found.opened.append(replace(opened, rate=half, direct=without.seen))
        for count, load in streams.items():
            beside = self.measured[DIRECT].streams[count][number].seen
            found.streams.setdefault(count, []).append(replace(load, direct=beside))
        per_cpu = closed.seen.good / closed.gateway_cpu_s
        print(f"round {number + 1}: {name}: {2 * half:.0f} requests/s, {per_cpu:.0f} a CPU second", flush=True)

    # -- the loads ----------------------------------------------------------------------------------------------------

    def _closed(self, target: Target, duration_s: float) -> LoadPlan:
        return LoadPlan(
            mode="closed",
            port=target.server.port,
            headers=dict(target.headers),
            bodies=self._bodies,
            duration_s=duration_s,
            connections=self._sizes.connections,
            seed=self._next_seed(),
        )

    def _open(self, target: Target, rate: float) -> LoadPlan:
        plan = self._closed(target, self._sizes.open_s)
        return msgspec.structs.replace(plan, mode="open", rate=rate, arrivals=self._sizes.arrivals)

    def _streams(self, target: Target, duration_s: float, count: int) -> LoadPlan:
        sizes = self._sizes
        return msgspec.structs.replace(
            self._closed(target, duration_s),
            mode="streams",
            bodies=self._stream_bodies,
            connections=count,
            chunks=sizes.chunks,
            spread_s=min(sizes.chunks * INTERVAL_S, duration_s),
        )

    def _next_seed(self) -> int:
        # The bodies begin at this place too, a stride apart, so that no load begins with the prompts of the one before.
        self._seed += 37
        return self._seed

    async def _load(self, plan: LoadPlan, target: Target, upstream: RunningServer) -> Load:
        """Raises PeerFailedError where the load generator fails."""
        servers = (target.server, upstream, *((target.helper,) if target.helper else ()))
        before = [server.cpu_s() for server in servers]
        seen = await run_loader(plan, self._cores.rest)
        used = [server.cpu_s() - start for server, start in zip(servers, before, strict=True)]
        return Load(seen, used[0], used[1], used[2] if target.helper else 0.0)

    @contextmanager
    def _noting_failure(self, name: str) -> Generator[None, None, None]:
        try:
            yield
        except PeerFailedError as error:
            self.failed[name] = str(error)
            print(f"  {name} failed: {error}", flush=True)


@asynccontextmanager
async def upstream_server(core: int) -> AsyncGenerator[RunningServer, None]:
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.gateway.upstream", str(port)]
    async with pinned_server("upstream", command, core=core, port=port, health="/health", env=this_tree()) as server:
        yield server


async def run_loader(plan: LoadPlan, core: int) -> LoadResult:
    """The load generator as a process of its own on `core`. Raises PeerFailedError."""
    command = on_core(core, FOLDER / "loader.pid", [sys.executable, "-m", "benchmarks.gateway.loader"])
    log = WORK / "logs" / "gateway-loader.log"
    process = await GuardedProcess.start(command, log=log, env=this_tree(), pipes=True)
    try:
        async with asyncio.timeout(plan.duration_s + _LOADER_EXTRA_S):
            process.stdin.write(msgspec.json.encode(plan))
            await process.stdin.drain()
            process.stdin.close()
            told = await process.stdout.read()
        return msgspec.json.decode(told, type=LoadResult)
    except (TimeoutError, ConnectionError, msgspec.DecodeError) as error:
        raise PeerFailedError(f"the load generator failed ({error!r}); its log ends:\n{process.log_tail()}") from error
    finally:
        await process.stop()
