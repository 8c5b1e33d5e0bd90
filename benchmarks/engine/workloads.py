"""The three loads: throughput, mixed, shared prefix. Each runs on a started engine and returns plain data."""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.engine.prompts import PromptMaker
from benchmarks.engine.stats import median
from benchmarks.engine.streams import Endpoint, Generation, StreamRecord

INTERACTIVE, BATCH = 0, 2
"""vLLM's `priority` of the two classes; engines that do not know it serve both alike."""


async def run_one(endpoint: Endpoint, generation: Generation) -> StreamRecord:
    record = StreamRecord(due=time.monotonic())
    await endpoint.generate(generation, record)
    return record


async def warm_up(endpoint: Endpoint, prompts: PromptMaker, streams: Sequence[int], prompt_tokens: int) -> None:
    """Let the engine see every batch size once; what kernels and caches need for it is then no part of the numbers."""
    for count in streams:
        async with asyncio.TaskGroup() as group:
            for prompt in prompts.prompts(count, prompt_tokens):
                group.create_task(run_one(endpoint, Generation(prompt, 12)))


# -- throughput -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Throughput:
    """`streams` clients at once, each with `requests` requests one after the other, all prompts distinct."""

    streams: int
    requests: int
    prompt_tokens: int = 200
    output_tokens: int = 64


async def run_throughput(endpoint: Endpoint, load: Throughput, prompts: PromptMaker) -> dict[str, object]:
    """Output tokens/s from the first request to the last token, and each request's TTFT and TPOT in seconds."""
    queues = [prompts.prompts(load.requests, load.prompt_tokens) for _ in range(load.streams)]
    records: list[StreamRecord] = []

    async def client(queue: Sequence[tuple[int, ...]]) -> None:
        records.extend([await run_one(endpoint, Generation(prompt, load.output_tokens)) for prompt in queue])

    start = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for queue in queues:
            group.create_task(client(queue))
    elapsed = max(record.chunk_times[-1] for record in records) - start
    return {
        "streams": load.streams,
        "requests": len(records),
        "elapsed_s": elapsed,
        "output_tokens_per_s": sum(record.output_tokens or 0 for record in records) / elapsed,
        "ttft_s": [record.ttft_s for record in records],
        "tpot_s": [record.tpot_s for record in records],
    }


# -- mixed load -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mixed:
    """Poisson interactive arrivals, first on the idle engine, then beside batch streams that never stop.

    The arrivals are cut into `segments`, each run in both ways in turn: a machine that drifts, drifts for both.
    """

    prompt_tokens: int
    arrivals: int
    segments: int
    output_tokens: int = 16
    utilisation: float = 0.3
    """Share of the time that the idle engine would be busy with these arrivals, if they came one after the other."""
    batch_streams: int = 12
    batch_prompt_tokens: int = 200
    batch_output_tokens: int = 512
    overtime_s: float = 60.0
    """How long after the last arrival an answer is waited for."""


async def run_mixed(endpoint: Endpoint, load: Mixed, prompts: PromptMaker, seed: int) -> dict[str, object]:
    """TTFT in seconds of the same arrivals without and with batch load (None: no answer), and the batch's tokens/s."""
    service_s = await _service_time(endpoint, load, prompts)
    rate = load.utilisation / service_s
    gaps = random.Random(seed)
    unloaded: list[float | None] = []
    loaded: list[float | None] = []
    batch_tokens, batch_s = 0.0, 0.0
    for segment in range(load.segments):
        count = load.arrivals * (segment + 1) // load.segments - load.arrivals * segment // load.segments
        waits = [gaps.expovariate(rate) for _ in range(count)]
        unloaded += await _interactive(endpoint, load, waits, prompts)
        async with _BatchLoad(endpoint, load, prompts) as batch:
            start = time.monotonic()
            loaded += await _interactive(endpoint, load, waits, prompts)
            end = time.monotonic()
        batch_tokens += batch.tokens_between(start, end)
        batch_s += end - start
    return {
        "prompt_tokens": load.prompt_tokens,
        "arrivals": load.arrivals,
        "service_s": service_s,
        "arrivals_per_s": rate,
        "unloaded_ttft_s": unloaded,
        "loaded_ttft_s": loaded,
        "batch_tokens_per_s": batch_tokens / batch_s,
    }


async def run_batch_alone(endpoint: Endpoint, load: Mixed, prompts: PromptMaker, seconds: float) -> dict[str, object]:
    """The batch streams with nothing beside them."""
    async with _BatchLoad(endpoint, load, prompts) as batch:
        start = time.monotonic()
        await asyncio.sleep(seconds)
        end = time.monotonic()
    return {"batch_streams": load.batch_streams, "batch_tokens_per_s": batch.tokens_between(start, end) / (end - start)}


async def _service_time(endpoint: Endpoint, load: Mixed, prompts: PromptMaker) -> float:
    """Seconds that one interactive request takes on the idle engine."""
    times: list[float] = []
    for prompt in prompts.prompts(5, load.prompt_tokens):
        record = await run_one(endpoint, Generation(prompt, load.output_tokens, INTERACTIVE))
        times.append(record.chunk_times[-1] - record.due)
    return median(times)


async def _interactive(
    endpoint: Endpoint, load: Mixed, waits: Sequence[float], prompts: PromptMaker
) -> list[float | None]:
    """Each arrival's TTFT. An open loop: a slow engine does not slow the arrivals."""
    now = time.monotonic()
    records: list[StreamRecord] = []
    tasks: list[asyncio.Task[None]] = []
    for wait, prompt in zip(waits, prompts.prompts(len(waits), load.prompt_tokens), strict=True):
        now += wait
        await asyncio.sleep(max(0.0, now - time.monotonic()))
        record = StreamRecord(due=now)
        records.append(record)
        generation = Generation(prompt, load.output_tokens, INTERACTIVE)
        tasks.append(asyncio.create_task(endpoint.generate(generation, record)))
    await _end(tasks, load.overtime_s)
    return [record.ttft_s for record in records]


class _BatchLoad:
    """Batch streams, each starting its next generation as soon as one ends. Entered once all of them give tokens."""

    def __init__(self, endpoint: Endpoint, load: Mixed, prompts: PromptMaker) -> None:
        self._endpoint = endpoint
        self._load = load
        self._prompts = prompts
        self._records: list[StreamRecord] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "_BatchLoad":
        self._tasks = [asyncio.create_task(self._stream(number)) for number in range(self._load.batch_streams)]
        try:
            while not self._all_started():
                await asyncio.sleep(0.05)
                self._raise_failures()
        except BaseException:
            await _end(self._tasks, 0)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._raise_failures()
        await _end(self._tasks, 0)

    def tokens_between(self, start: float, end: float) -> float:
        """Output tokens of the span; pieces are turned into tokens by what the finished streams' usage says."""
        finished = [record for record in self._records if record.finished]
        pieces = sum(len(record.chunk_times) for record in finished)
        tokens_per_piece = sum(record.output_tokens or 0 for record in finished) / pieces if pieces else 1.0
        return tokens_per_piece * sum(start <= at <= end for record in self._records for at in record.chunk_times)

    def _all_started(self) -> bool:
        first = self._records[: self._load.batch_streams]
        return len(first) == self._load.batch_streams and all(record.chunk_times for record in first)

    async def _stream(self, number: int) -> None:
        # The first generations differ in length, so that the streams do not all start anew at the same moment.
        output_tokens = self._load.batch_output_tokens * (number + 1) // self._load.batch_streams
        while True:
            prompt = self._prompts.prompt(self._load.batch_prompt_tokens)
            record = StreamRecord(due=time.monotonic())
            self._records.append(record)
            await self._endpoint.generate(Generation(prompt, max(16, output_tokens), BATCH), record)
            output_tokens = self._load.batch_output_tokens

    def _raise_failures(self) -> None:
        for task in self._tasks:
            if task.done():
                task.result()


async def _end(tasks: Sequence[asyncio.Task[None]], patience_s: float) -> None:
    """Wait at most `patience_s`, then cancel what is left; raise what failed."""
    if not tasks:
        return
    await asyncio.wait(tasks, timeout=patience_s)
    for task in tasks:
        task.cancel()
    for outcome in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(outcome, Exception):
            raise outcome


# -- shared prefix ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SharedPrefix:
    """Pairs of requests that share their first `prefix_tokens` and go on differently, one request at a time."""

    pairs: int
    prefix_tokens: int = 1000
    own_tokens: int = 20
    output_tokens: int = 16


async def run_shared_prefix(endpoint: Endpoint, load: SharedPrefix, prompts: PromptMaker) -> dict[str, object]:
    """TTFT in seconds of the first and the second request of each pair, and the second's cached tokens where told."""
    first: list[StreamRecord] = []
    second: list[StreamRecord] = []
    for prefix in prompts.prompts(load.pairs, load.prefix_tokens):
        for records in (first, second):
            prompt = prompts.after(prefix, load.own_tokens)
            records.append(await run_one(endpoint, Generation(prompt, load.output_tokens)))
    return {
        "prefix_tokens": load.prefix_tokens,
        "own_tokens": load.own_tokens,
        "first_ttft_s": [record.ttft_s for record in first],
        "second_ttft_s": [record.ttft_s for record in second],
        "second_cached_tokens": [record.cached_tokens for record in second],
    }
