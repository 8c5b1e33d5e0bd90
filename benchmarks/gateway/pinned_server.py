"""Servers on one core each, that end with the benchmark."""

import asyncio
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine.processes import GuardedProcess, PeerFailedError, wait_healthy
from benchmarks.engine.work import WORK
from benchmarks.gateway.cpu import cpu_seconds

FOLDER = WORK / "gateway"
_PID_TRIES, _PID_PAUSE_S = 200, 0.05
_PINNED = Path(__file__).with_name("pinned.py")


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server on the loopback interface."""

    port: int
    pid: int

    def cpu_s(self) -> float:
        return cpu_seconds(self.pid)


def on_core(core: int, pid_file: Path, command: Sequence[str]) -> list[str]:
    """The command that runs `command` on `core` alone and writes its process id to `pid_file`."""
    return [sys.executable, "-I", str(_PINNED), str(core), str(pid_file), *command]


def _text_of(path: Path) -> str:
    """Empty where the file is not there yet."""
    return path.read_text() if path.exists() else ""


async def _pid(process: GuardedProcess, file: Path) -> int:
    """What `pinned.py` wrote, once it is there."""
    for _ in range(_PID_TRIES):
        if text := _text_of(file):
            return int(text)
        await asyncio.sleep(_PID_PAUSE_S)
    raise PeerFailedError(f"{file.name} was not written; the log ends:\n{process.log_tail()}")


@asynccontextmanager
async def pinned_server(
    name: str,
    command: Sequence[str],
    *,
    core: int,
    port: int,
    health: str | None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 120.0,
) -> AsyncGenerator[RunningServer, None]:
    """Started, and healthy where it has a path `health` to ask at. Raises PeerFailedError."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    pid_file = FOLDER / f"{name}.pid"
    pid_file.unlink(missing_ok=True)
    log = WORK / "logs" / f"gateway-{name}.log"
    process = await GuardedProcess.start(on_core(core, pid_file, command), log=log, env=env)
    try:
        if health is not None:
            await wait_healthy(process, f"http://127.0.0.1:{port}{health}", timeout_s)
        yield RunningServer(port, await _pid(process, pid_file))
    finally:
        await process.stop()
