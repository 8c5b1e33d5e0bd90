"""Replicas as child processes of this one, on this machine.

A child holds the reading end of a pipe whose writing end only this process has: when this process is gone, however it
went, the child reads the end of the pipe and exits. It runs in a process group of its own, so that Ctrl-C reaches this
process alone, which then ends its children in order.
"""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from forebay.core.ids import new_id
from forebay.core.units import MIB
from forebay.engine.settings import EngineSettings
from forebay.fleet.driver import ReplicaStartError
from forebay.fleet.drivers.child_process import ChildProcess
from forebay.fleet.drivers.process_log import ProcessLog
from forebay.fleet.replica import Endpoint
from forebay.fleet.settings import FleetSettings

REPLICA_KEY_VARIABLE = "FOREBAY_REPLICA_API_KEY"
EXIT_NOT_RETRYABLE = 78
"""Exit code of a process whose settings, model or machine are wrong (sysexits' EX_CONFIG)."""

PORT_POLL_S = 0.05

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
        port_file = self._pool.data_dir / "run" / f"{new_id(name)}.port"
        token = new_id("replica")
        try:
            child = await self._spawn(name, port_file, token)
        except OSError as error:
            raise ReplicaStartError(
                f"The engine process of {name} cannot be started: {error}.", permanent=False
            ) from error
        try:
            port = await self._wait_for_port(name, child, port_file)
        except BaseException:
            await child.stop()
            raise
        finally:
            port_file.unlink(missing_ok=True)
        return LocalReplica(child, self._endpoint(port, token))

    async def _spawn(self, name: str, port_file: Path, token: str) -> ChildProcess:
        port_file.parent.mkdir(parents=True, exist_ok=True)
        log = ProcessLog(self._pool.data_dir / "logs" / f"{name}.log", self._settings.log_max_mb * MIB)
        try:
            process = await self._execute(port_file, token)
        except BaseException:
            log.close()
            raise
        return ChildProcess(process, log, self._settings.stop_timeout_s)

    async def _execute(self, port_file: Path, token: str) -> asyncio.subprocess.Process:
        pool = self._pool
        arguments: Sequence[str | Path] = [
            *("-m", "forebay", "engine", "serve", "--model", pool.model),
            *("--served-model-name", pool.served_model_name, "--host", "127.0.0.1", "--port", "0"),
            *("--port-file", port_file, "--cache-dir", pool.cache_dir, "--exit-with-parent"),
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
        )

    async def _wait_for_port(self, name: str, child: ChildProcess, port_file: Path) -> int:
        """The port that the child wrote once it listens."""
        limit_s = self._settings.start_timeout_s
        async with asyncio.TaskGroup() as tasks:
            exiting = tasks.create_task(child.exited())
            port = await _port_unless(exiting, port_file, limit_s)
            exiting.cancel()
        if port is not None:
            return port
        if child.return_code is None:
            raise ReplicaStartError(
                f"The engine process of {name} did not listen within {limit_s:g} s (fleet.start_timeout_s). "
                f"{child.where()}",
                permanent=False,
            )
        raise ReplicaStartError(
            f"The engine process of {name} ended while it started ({child.ending()}). {child.where()}",
            permanent=child.return_code == EXIT_NOT_RETRYABLE,
        )

    def _endpoint(self, port: int, token: str) -> Endpoint:
        root = f"http://127.0.0.1:{port}"
        return Endpoint(
            base_url=f"{root}/v1",
            model=self._pool.served_model_name,
            api_key=token,
            takes_priority=True,
            health_url=f"{root}/health",
        )


def _read_port(path: Path) -> int | None:
    """The port in the file, which appears whole; None while it is not there."""
    try:
        return int(path.read_text())
    except FileNotFoundError:
        return None


async def _port_unless(exiting: asyncio.Task[str], port_file: Path, limit_s: float) -> int | None:
    """The port in the file; None where the child exits first or the time is over."""
    try:
        async with asyncio.timeout(limit_s):
            while not exiting.done():
                if (port := _read_port(port_file)) is not None:
                    return port
                await asyncio.wait({exiting}, timeout=PORT_POLL_S)
    except TimeoutError:
        pass
    return None


class LocalReplica:
    """A running engine process."""

    def __init__(self, child: ChildProcess, endpoint: Endpoint) -> None:
        self._child = child
        self._endpoint = endpoint

    @property
    def endpoint(self) -> Endpoint:
        return self._endpoint

    async def exited(self) -> str:
        ending = await self._child.exited()
        return f"its engine process ended ({ending}). {self._child.where()}"

    async def stop(self) -> None:
        await self._child.stop()
