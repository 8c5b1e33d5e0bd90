"""Runs a plan on the peers, one at a time, interleaved in rounds."""

import asyncio
import sys
import time
from collections.abc import Callable, Sequence

from benchmarks.engine.machine import LOAD, QUIET_LOAD, machine_facts
from benchmarks.engine.peers.base import Peer
from benchmarks.engine.plan import Kind, Plan
from benchmarks.engine.processes import PeerFailedError
from benchmarks.engine.prompts import PromptMaker
from benchmarks.engine.results import Measurement, Results, now_text
from benchmarks.engine.streams import Endpoint
from benchmarks.engine.work import PeerUnavailableError
from benchmarks.engine.workloads import run_batch_alone, run_mixed, run_shared_prefix, run_throughput, warm_up

OURS = "forebay"
_BLOCK_TIMEOUT_S: dict[Kind, float] = {"throughput": 1800, "mixed": 5 * 3600, "prefix": 900}


def prepare(peers: Sequence[Peer], results: Results) -> list[Peer]:
    """Those that can run here; the reasons of the others go into `results`."""
    able: list[Peer] = []
    for peer in peers:
        print(f"prepare {peer.name}", flush=True)
        try:
            results.peers[peer.name] = peer.prepare()
            results.skipped.pop(peer.name, None)
            able.append(peer)
        except PeerUnavailableError as error:
            results.skipped[peer.name] = str(error)
            print(f"  skipped: {error}", flush=True)
    return able


def new_results() -> Results:
    facts = machine_facts()
    load = float(facts[LOAD])
    if load > QUIET_LOAD:
        print(f"warning: this machine is busy (load average {load}); the numbers will not hold", flush=True)
    return Results(
        started=now_text(), commands=[" ".join(["python -m benchmarks.engine", *sys.argv[1:]])], machine=facts
    )


class Runner:
    """One run: owns the results and the clock of the whole."""

    def __init__(self, plan: Plan, peers: Sequence[Peer], results: Results, make_prompts: Callable[[int], PromptMaker]):
        self._plan = plan
        self._peers = peers
        self._results = results
        self._make_prompts = make_prompts
        self._start = time.monotonic()
        self._earlier_s = results.elapsed_s

    async def run(self) -> None:
        """All blocks: throughput in rounds (A B C A B C), then prefix and mixed load, peer after peer."""
        if "throughput" in self._plan.kinds:
            for round_number in range(self._plan.rounds):
                for peer in self._of("throughput"):
                    await self._block("throughput", peer, round_number)
        for kind in ("prefix", "mixed"):
            if kind in self._plan.kinds:
                for peer in self._of(kind):
                    await self._block(kind, peer, 0)

    def _of(self, kind: Kind) -> list[Peer]:
        return [peer for peer in self._peers if kind in peer.loads]

    async def _block(self, kind: Kind, peer: Peer, round_number: int) -> None:
        print(f"[{time.monotonic() - self._start:6.0f} s] {kind}, round {round_number + 1}: {peer.name}", flush=True)
        what = f"{peer.name}, {kind}, round {round_number + 1}: "
        self._results.failed = [text for text in self._results.failed if not text.startswith(what)]
        measure = {"throughput": self._throughput, "mixed": self._mixed, "prefix": self._prefix}[kind]
        # Each peer gets the same prompts; each round others, so that no cache of an earlier round helps.
        prompts = self._make_prompts(self._plan.seed + round_number)
        try:
            async with asyncio.timeout(_BLOCK_TIMEOUT_S[kind]), peer.running() as endpoint:
                await warm_up(endpoint, prompts, self._plan.streams, 200)
                await measure(endpoint, peer, round_number, prompts)
        except* (PeerFailedError, PeerUnavailableError, OSError, TimeoutError) as group:
            for error in _leaves(group):
                text = f"{what}{type(error).__name__}: {error}"
                self._results.failed.append(text)
                print(f"  failed: {text}", flush=True)
        self._results.elapsed_s = self._earlier_s + time.monotonic() - self._start
        self._results.save()

    async def _throughput(self, endpoint: Endpoint, peer: Peer, round_number: int, prompts: PromptMaker) -> None:
        for load in self._plan.throughput():
            values = await run_throughput(endpoint, load, prompts)
            self._add("throughput", peer, round_number, values)
            print(f"  {load.streams:3} streams: {values['output_tokens_per_s']:7.1f} output tokens/s", flush=True)

    async def _mixed(self, endpoint: Endpoint, peer: Peer, round_number: int, prompts: PromptMaker) -> None:
        loads = self._plan.mixed(ours=peer.name == OURS)
        alone = await run_batch_alone(endpoint, loads[0], prompts, self._plan.batch_alone_s)
        self._add("batch-alone", peer, round_number, alone)
        print(f"  batch alone: {alone['batch_tokens_per_s']:7.1f} tokens/s", flush=True)
        for load in loads:
            values = await run_mixed(endpoint, load, prompts, self._plan.seed)
            self._add("mixed", peer, round_number, values)
            self._results.save()
            print(f"  {load.prompt_tokens:5}-token prompts: {load.arrivals} arrivals done", flush=True)

    async def _prefix(self, endpoint: Endpoint, peer: Peer, round_number: int, prompts: PromptMaker) -> None:
        self._add("prefix", peer, round_number, await run_shared_prefix(endpoint, self._plan.prefix(), prompts))

    def _add(self, kind: str, peer: Peer, round_number: int, values: dict[str, object]) -> None:
        self._results.add(Measurement(kind, peer.name, round_number, values))


def _leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found
