"""Forebay's engine in process, for the comparison with GenAI's, which has no server.

`python -m benchmarks.engine.workers.forebay_engine SETTINGS` with SETTINGS a JSON object: `model` (a model source) and
`engine` (EngineSettings). Speaks the protocol of `pipe_client.py`.
"""

import asyncio
import os
import sys
import time
from typing import Any, BinaryIO

import msgspec

from benchmarks.engine.model import load_model
from forebay.core.clock import SystemClock
from forebay.engine.build import build_engine
from forebay.engine.request import GenerationRequest, SamplingParams
from forebay.engine.service import AsyncEngine
from forebay.engine.settings import EngineSettings


class Worker:
    """Runs each request in a task of its own."""

    def __init__(self, engine: AsyncEngine, events: BinaryIO) -> None:
        self._engine = engine
        self._events = events
        self._tasks: dict[int, asyncio.Task[None]] = {}

    async def serve(self) -> None:
        reader = asyncio.StreamReader(limit=1 << 24)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        self._emit({"ready": {}})
        while line := await reader.readline():
            message = msgspec.json.decode(line)
            if "cancel" in message:
                if task := self._tasks.get(message["cancel"]):
                    task.cancel()
                continue
            task = asyncio.create_task(self._generate(message))
            self._tasks[message["id"]] = task
            task.add_done_callback(lambda _, number=message["id"]: self._tasks.pop(number))

    async def _generate(self, message: dict[str, Any]) -> None:
        number = message["id"]
        request = GenerationRequest(
            request_id=str(number),
            prompt_token_ids=tuple(message["prompt"]),
            sampling=SamplingParams(max_tokens=message["output_tokens"], temperature=0.0, ignore_eos=True),
            priority=message["priority"],
        )
        async for update in self._engine.generate(request):
            done = [[number, update.completion_tokens]] if update.finish_reason else []
            self._emit({"at": time.monotonic(), "progressed": [number], "done": done})

    def _emit(self, message: dict[str, Any]) -> None:
        self._events.write(msgspec.json.encode(message) + b"\n")


def main() -> None:
    # What a library prints goes to the log; only events go to the pipe.
    events = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    settings = msgspec.json.decode(sys.argv[1])
    engine = build_engine(
        load_model(settings["model"]), msgspec.convert(settings["engine"], EngineSettings), SystemClock()
    )
    try:
        asyncio.run(Worker(engine, events).serve())
    finally:
        engine.close()


if __name__ == "__main__":
    main()
