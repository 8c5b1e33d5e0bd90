"""Replicas as child processes of this one, on this machine.

A child holds the reading end of a pipe whose writing end only this process has: when this process is gone, however it
went, the child reads the end of the pipe and exits. It runs in a process group of its own, so that Ctrl-C reaches this
process alone, which then ends its children in order.
"""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from forebay.core.ids import new_id
from forebay.core.units import MIB
from forebay.engine.settings import EngineSettings
from forebay.fleet.driver import Ending, ReplicaStartError
from forebay.fleet.drivers.child_process import ChildProcess
from forebay.fleet.drivers.process_log import ProcessLog
from forebay.fleet.replica import Endpoint
from forebay.fleet.settings import FleetSettings

REPLICA_KEY_VARIABLE = "FOREBAY_REPLICA_API_KEY"
EXIT_NOT_RETRYABLE = 78
"""Exit code of a process whose settings, model or machine are wrong (sysexits' EX_CONFIG)."""

INHERITED_VARIABLES = frozenset(
    {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "LANG",
        "TZ",
        "TMPDIR",
        "TMP",
        "TEMP",
        "SYSTEMROOT",
        "VIRTUAL_ENV",
        "PYTHONPATH",
    }
    | {"PYTHONHOME", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"}
    | {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"}
)
INHERITED_PREFIXES = ("LC_", "XDG_", "PIP_", "OMP_", "OV_", "OPENVINO_", "OPENBLAS_", "TBB_")


def child_environment(parent: Mapping[str, str], token: str) -> dict[str, str]:
    """What an engine process sees: what runs Python and fetches models, its own token, no secret of this process."""
    inherited = {
        name: value
        for name, value in parent.items()
        if name.upper() in INHERITED_VARIABLES or name.startswith(INHERITED_PREFIXES)
    }
    return inherited | {REPLICA_KEY_VARIABLE: token, "PYTHONUNBUFFERED": "1"}


def engine_arguments(settings: EngineSettings) -> list[str]:
    """Flags of `forebay engine serve` for what differs from the defaults."""
    defaults = EngineSettings()
    arguments: list[str] = []
    for field in msgspec.structs.fields(EngineSettings):
        value = getattr(settings, field.name)
        if value != getattr(defaults, field.name):
            arguments += ["--" + field.name.replace("_", "-"), str(value)]
    return arguments


@dataclass(frozen=True, slots=True)
class LocalPool:
    """What the engine processes of one pool share."""

    model: str
    served_model_name: str
    engine: EngineSettings
    cache_dir: Path
    data_dir: Path
    environment: Mapping[str, str]
    """This process's own; see `child_environment`."""


class LocalDriver:
    """Runs `forebay engine serve` once for each replica."""

    def __init__(self, pool: LocalPool, settings: FleetSettings) -> None:
        self._pool = pool
        self._settings = settings

    async def start(self, name: str) -> "LocalReplica":
        token = new_id("replica")
        async with _PortPipe() as ports:
            try:
                child = await self._spawn(name, ports, token)
            except OSError as error:
                raise ReplicaStartError(
                    f"The engine process of {name} cannot be started: {error}.", permanent=False
                ) from error
            try:
                port = await self._wait_for_port(name, child, ports)
            except BaseException:
                await child.stop()
                raise
        return LocalReplica(child, self._endpoint(port, token))

    async def _spawn(self, name: str, ports: "_PortPipe", token: str) -> ChildProcess:
        log = ProcessLog(self._pool.data_dir / "logs" / f"{name}.log", self._settings.log_max_mb * MIB)
        process = await self._execute(ports.child_end, token)
        ports.given_away()
        return ChildProcess(process, log, self._settings.stop_timeout_s)

    async def _execute(self, port_fd: int, token: str) -> asyncio.subprocess.Process:
        pool = self._pool
        arguments: Sequence[str | Path] = [
            *("-m", "forebay", "engine", "serve", "--model", pool.model),
            *("--served-model-name", pool.served_model_name, "--host", "127.0.0.1", "--port", "0"),
            *("--port-fd", str(port_fd), "--cache-dir", pool.cache_dir, "--exit-with-parent", "--trust-public-prefix"),
            *engine_arguments(pool.engine),
        ]
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=child_environment(pool.environment, token),
            start_new_session=True,
            pass_fds=(port_fd,),
        )

    async def _wait_for_port(self, name: str, child: ChildProcess, ports: "_PortPipe") -> int:
        """The port that the child tells once it listens."""
        limit_s = self._settings.start_timeout_s
        async with asyncio.TaskGroup() as tasks:
            exiting = tasks.create_task(child.exited())
            port = await _port_unless(exiting, ports, limit_s)
            exiting.cancel()
        if port is not None:
            return port
        if child.return_code is None:
            raise ReplicaStartError(
                f"The engine process of {name} did not listen within {limit_s:g} s (fleet.start_timeout_s).",
                permanent=False,
                log=child.log_end(),
            )
        raise ReplicaStartError(
            f"The engine process of {name} ended while it started ({child.ending()}).",
            permanent=child.return_code == EXIT_NOT_RETRYABLE,
            log=child.log_end(),
        )

    def _endpoint(self, port: int, token: str) -> Endpoint:
        root = f"http://127.0.0.1:{port}"
        return Endpoint(
            base_url=f"{root}/v1",
            model=self._pool.served_model_name,
            api_key=token,
            takes_priority=True,
            health_url=f"{root}/health",
            tells_usage=True,
        )


class _PortPipe:
    """The pipe through which a child tells its port; unlike a file it needs no disk that has room."""

    async def __aenter__(self) -> Self:
        reading, self.child_end = os.pipe()
        self._child_end_is_open = True
        self._reader = asyncio.StreamReader()
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._reader), os.fdopen(reading, "rb", buffering=0)
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.given_away()
        self._transport.close()

    def given_away(self) -> None:
        """Close this process's copy of the child's end, so that the pipe ends with the child."""
        if self._child_end_is_open:
            self._child_end_is_open = False
            os.close(self.child_end)

    async def port(self) -> int | None:
        """The port; None where the child has gone without telling."""
        line = await self._reader.readline()
        return int(line) if line.endswith(b"\n") else None


async def _port_unless(exiting: asyncio.Task[str], ports: _PortPipe, limit_s: float) -> int | None:
    """The port that the child tells; None where it exits first or the time is over."""
    try:
        async with asyncio.timeout(limit_s):
            port = await ports.port()
            if port is None:
                await asyncio.wait({exiting})
            return port
    except TimeoutError:
        return None


class LocalReplica:
    """A running engine process."""

    def __init__(self, child: ChildProcess, endpoint: Endpoint) -> None:
        self._child = child
        self._endpoint = endpoint

    @property
    def endpoint(self) -> Endpoint:
        return self._endpoint

    async def exited(self) -> Ending:
        ending = await self._child.exited()
        return Ending(f"its engine process ended ({ending})", self._child.log_end())

    async def stop(self) -> None:
        await self._child.stop()
