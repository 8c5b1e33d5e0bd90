"""`python -m benchmarks.soak`: one replica under random load and random disconnects."""

import argparse
import asyncio
import random
import time
from pathlib import Path

import aiohttp

from benchmarks.engine.http_client import HttpEndpoint
from benchmarks.engine.model import MODEL, load_model
from benchmarks.engine.peers.ours import Forebay
from benchmarks.engine.prompts import PromptMaker
from benchmarks.engine.streams import Generation, StreamRecord

_SAMPLE_EVERY_S = 5.0
_SETTLE_S = 10.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    asyncio.run(soak(options.streams, options.seconds, options.seed))


async def soak(streams: int, seconds: float, seed: int) -> None:
    """Print what came of it; exits with an error where blocks stay in use."""
    # A cache far smaller than the load, so that preemption is part of it.
    replica = Forebay(MODEL, slots=16, kv_cache_gb=0.15)
    tokenizer = load_model().tokenizer
    async with replica.running() as endpoint:
        pid = _replica_pid()
        prompts = PromptMaker(lambda text: tokenizer.encode(text, add_special_tokens=False), seed)
        chance = random.Random(seed)
        ends = time.monotonic() + seconds
        counts = {"finished": 0, "left early": 0}
        memory = asyncio.create_task(_sample_memory(pid, ends))
        async with asyncio.TaskGroup() as tasks:
            for _ in range(streams):
                tasks.create_task(_stream(endpoint, prompts, chance, ends, counts))
        samples = await memory
        metrics = await _settled_metrics(endpoint.root)
    print(f"{streams} streams for {seconds:.0f} s: {counts['finished']} finished, {counts['left early']} left early")
    print(f"preemptions {metrics['num_preemptions_total']:.0f}")
    print(f"resident MiB, every {_SAMPLE_EVERY_S:.0f} s: {' '.join(f'{mib:.0f}' for mib in samples)}")
    print(f"at idle: running {metrics['num_requests_running']:.0f}, KV in use {metrics['kv_cache_usage_perc']:.0%}")
    if metrics["num_requests_running"] or metrics["kv_cache_usage_perc"]:
        raise SystemExit("something was left behind")


async def _stream(
    endpoint: HttpEndpoint, prompts: PromptMaker, chance: random.Random, ends: float, counts: dict[str, int]
) -> None:
    """One client: request after request, half of which it leaves at a random moment."""
    while time.monotonic() < ends:
        generation = Generation(
            prompts.prompt(chance.choice((20, 60, 200))), chance.choice((8, 40, 120)), chance.choice((0, 1, 2, 2))
        )
        patience_s = chance.uniform(0, 6) if chance.random() < 0.5 else 600.0
        try:
            async with asyncio.timeout(patience_s):
                await endpoint.generate(generation, StreamRecord(due=time.monotonic()))
            counts["finished"] += 1
        except TimeoutError:
            counts["left early"] += 1


async def _sample_memory(pid: int, ends: float) -> list[float]:
    """Resident MiB, one number for each interval."""
    samples: list[float] = []
    while time.monotonic() < ends:
        samples.append(_resident_mib(pid))
        await asyncio.sleep(_SAMPLE_EVERY_S)
    return samples


def _resident_mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 2**20


async def _settled_metrics(root: str) -> dict[str, float]:
    """The replica's metrics once nothing runs, or as they are after a while."""
    deadline = time.monotonic() + _SETTLE_S
    while True:
        async with aiohttp.ClientSession() as session, session.get(f"{root}/metrics") as response:
            metrics = _parse(await response.text())
        if not metrics["num_requests_running"] or time.monotonic() > deadline:
            return metrics
        await asyncio.sleep(0.2)


def _parse(text: str) -> dict[str, float]:
    """`vllm:name{…} value` lines by name."""
    lines = [line for line in text.splitlines() if line.startswith("vllm:")]
    return {line[5:].split("{")[0]: float(line.rsplit(" ", 1)[1]) for line in lines}


def _replica_pid() -> int:
    """The newest process that runs `forebay engine serve`."""
    found = [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdecimal() and _runs_a_replica(_command_of(entry))
    ]
    return max(found)


def _runs_a_replica(command: bytes) -> bool:
    return b"forebay\0engine\0serve" in command and b"guard.py" not in command


def _command_of(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


main()
