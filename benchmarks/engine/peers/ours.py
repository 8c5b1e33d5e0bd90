"""Forebay's own engine: the replica over HTTP, as users run it, and the engine in process."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec

from benchmarks.engine.http_client import HttpEndpoint, http_endpoint
from benchmarks.engine.pipe_client import PipeEndpoint, pipe_endpoint
from benchmarks.engine.plan import KINDS, Kind
from benchmarks.engine.processes import GuardedProcess, PeerFailedError, wait_healthy
from benchmarks.engine.work import ROOT, WORK

_START_TIMEOUT_S = 300


class Forebay:
    """`forebay engine serve` on `model`, with `kv_cache_gb`, a slot for each of `slots` streams and more `options`."""

    name = "forebay"
    loads = frozenset(KINDS)

    def __init__(self, model: str, *, slots: int, kv_cache_gb: float, options: Sequence[str] = ()) -> None:
        sizes = ["--kv-cache-gb", f"{kv_cache_gb:g}", "--max-num-seqs", str(slots)]
        self._options = ["--model", model, *sizes, *options]

    def prepare(self) -> dict[str, str]:
        return {"version": "this tree", "weights": "INT8_ASYM by channel", "settings": " ".join(self._options)}

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[HttpEndpoint, None]:
        port_file = WORK / "forebay.port"
        port_file.unlink(missing_ok=True)
        command = [sys.executable, "-m", "forebay", "engine", "serve", *self._options, "--port", "0"]
        log = WORK / "logs" / f"{self.name}.log"
        process = await GuardedProcess.start([*command, "--port-file", str(port_file)], log=log, env=this_tree())
        try:
            url = f"http://127.0.0.1:{await _port(process, port_file)}"
            await wait_healthy(process, f"{url}/health", _START_TIMEOUT_S)
            async with http_endpoint(url, await _served_model(url), priorities=True) as endpoint:
                yield endpoint
        finally:
            await process.stop()


class ForebayInProcess:
    """The engine behind a worker's pipes instead of HTTP: what GenAI, which has no server, is compared with."""

    name = "forebay-in-process"
    loads: frozenset[Kind] = frozenset({"throughput"})

    def __init__(self, model: str, *, slots: int, kv_cache_gb: float) -> None:
        self._model = model
        self._engine = {"max_num_seqs": slots, "kv_cache_gb": kv_cache_gb}

    def prepare(self) -> dict[str, str]:
        settings = ", ".join(f"{name} {value:g}" for name, value in self._engine.items())
        return {"version": "this tree", "weights": "INT8_ASYM by channel", "settings": settings}

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[PipeEndpoint, None]:
        settings = msgspec.json.encode({"model": self._model, "engine": self._engine}).decode()
        command = [sys.executable, "-m", "benchmarks.engine.workers.forebay_engine", settings]
        log = WORK / "logs" / f"{self.name}.log"
        async with pipe_endpoint(command, log=log, start_timeout_s=_START_TIMEOUT_S, env=this_tree()) as endpoint:
            yield endpoint


def this_tree() -> dict[str, str]:
    """An environment in which Python finds this tree first, wherever it is started."""
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}


async def _port(process: GuardedProcess, port_file: Path) -> int:
    """The port that the replica chose, once it says so."""
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline and process.alive:
        if text := _text_of(port_file):
            return int(text)
        await asyncio.sleep(0.1)
    raise PeerFailedError(f"the replica wrote no port to {port_file}; {process.log} ends:\n{process.log_tail()}")


def _text_of(path: Path) -> str:
    """Empty where the file is not there yet."""
    return path.read_text().strip() if path.exists() else ""


async def _served_model(url: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"{url}/v1/models") as response:
        return str((await response.json())["data"][0]["id"])
