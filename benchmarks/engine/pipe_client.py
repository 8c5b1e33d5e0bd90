"""Drives an engine that runs in process in a worker, over the worker's stdin and stdout, and measures it.

One JSON object a line. To the worker: `{"id", "prompt", "output_tokens", "priority"}` or `{"cancel": id}`. From it,
first `{"ready": {…}}`, then whenever tokens came `{"at", "progressed": [id…], "done": [[id, output tokens]…]}`, where
`at` is the worker's own `time.monotonic()` at that moment: the pipe's delay is no part of what is measured.
"""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from benchmarks.engine.processes import GuardedProcess, PeerFailedError
from benchmarks.engine.streams import Generation, StreamRecord


class _Event(msgspec.Struct):
    at: float = 0.0
    progressed: list[int] = []
    done: list[tuple[int, int]] = []
    ready: dict[str, str] | None = None


class PipeEndpoint:
    """The engine behind one worker's pipes."""

    def __init__(self, process: GuardedProcess) -> None:
        self._process = process
        self._ids = itertools.count()
        self._records: dict[int, StreamRecord] = {}
        self._done: dict[int, asyncio.Future[None]] = {}

    async def generate(self, generation: Generation, record: StreamRecord) -> None:
        number = next(self._ids)
        done = asyncio.get_running_loop().create_future()
        self._records[number], self._done[number] = record, done
        message = {
            "id": number,
            "prompt": generation.prompt,
            "output_tokens": generation.output_tokens,
            "priority": generation.priority,
        }
        try:
            await self._send(message)
            await done
        except asyncio.CancelledError:
            await self._send({"cancel": number})
            raise
        finally:
            del self._records[number], self._done[number]
        if record.output_tokens != generation.output_tokens:
            raise PeerFailedError(f"asked for {generation.output_tokens} tokens, got {record.output_tokens}")

    async def _send(self, message: Mapping[str, object]) -> None:
        self._process.stdin.write(msgspec.json.encode(message) + b"\n")
        await self._process.stdin.drain()

    async def relay(self) -> None:
        """Give out the worker's events until it ends, which fails whatever still waits."""
        decoder = msgspec.json.Decoder(_Event)
        try:
            while line := await self._process.stdout.readline():
                self._note(decoder.decode(line))
        finally:
            for future in self._done.values():
                if not future.done():
                    future.set_exception(
                        PeerFailedError(f"the worker ended; its log ends:\n{self._process.log_tail()}")
                    )

    def _note(self, event: _Event) -> None:
        for number in event.progressed:
            if number in self._records:
                self._records[number].chunk_times.append(event.at)
        for number, output_tokens in event.done:
            if number in self._records and not self._done[number].done():
                self._records[number].output_tokens = output_tokens
                self._done[number].set_result(None)


@asynccontextmanager
async def pipe_endpoint(
    command: Sequence[str], *, log: Path, start_timeout_s: float, env: Mapping[str, str] | None = None
) -> AsyncGenerator[PipeEndpoint, None]:
    """Start a worker, wait until it is ready, end it on leaving."""
    process = await GuardedProcess.start(command, log=log, env=env, pipes=True)
    try:
        await asyncio.wait_for(_ready(process), start_timeout_s)
        endpoint = PipeEndpoint(process)
        relay = asyncio.create_task(endpoint.relay())
        try:
            yield endpoint
        finally:
            relay.cancel()
            await asyncio.gather(relay, return_exceptions=True)
    finally:
        await process.stop()


async def _ready(process: GuardedProcess) -> None:
    decoder = msgspec.json.Decoder(_Event)
    while line := await process.stdout.readline():
        if line.startswith(b'{"ready"') and decoder.decode(line).ready is not None:
            return
    raise PeerFailedError(f"the worker ended before it was ready; {process.log} ends:\n{process.log_tail()}")
