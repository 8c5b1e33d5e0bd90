"""The processes of the peers: none outlives the benchmark."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import aiohttp

_GUARD = Path(__file__).with_name("guard.py")
_STOP_TIMEOUT_S = 15.0


class PeerFailedError(Exception):
    """A peer did not start, died, or did not answer; the message says which and where its log is."""


class GuardedProcess:
    """A command under `guard.py`. Its stderr, and its stdout unless `pipes`, go to `log`."""

    def __init__(self, process: asyncio.subprocess.Process, lifeline: int, log: Path) -> None:
        self._process = process
        self._lifeline = lifeline
        self.log = log

    @classmethod
    async def start(
        cls, command: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None, pipes: bool = False
    ) -> "GuardedProcess":
        log.parent.mkdir(parents=True, exist_ok=True)
        read_end, write_end = os.pipe()
        os.set_inheritable(read_end, True)
        try:
            with log.open("wb") as log_file:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-I",
                    str(_GUARD),
                    str(read_end),
                    *command,
                    stdin=subprocess.PIPE if pipes else subprocess.DEVNULL,
                    stdout=subprocess.PIPE if pipes else log_file,
                    stderr=log_file,
                    env={**os.environ, **(env or {})},
                    pass_fds=(read_end,),
                    limit=1 << 24,
                )
        except BaseException:
            os.close(write_end)
            raise
        finally:
            os.close(read_end)
        return cls(process, write_end, log)

    @property
    def stdin(self) -> asyncio.StreamWriter:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def stdout(self) -> asyncio.StreamReader:
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    def log_tail(self, lines: int = 15) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    async def stop(self) -> None:
        """End the command and everything it started."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1
        try:
            await asyncio.wait_for(self._process.wait(), _STOP_TIMEOUT_S)
        except TimeoutError:
            # The guard itself hangs; the group it guards has had its SIGKILL by then.
            self._process.kill()
            await self._process.wait()


async def wait_healthy(process: GuardedProcess, url: str, timeout_s: float) -> None:
    """Return once GET `url` answers 200; PeerFailedError when the process dies first or the time is over."""
    deadline = time.monotonic() + timeout_s
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
        while time.monotonic() < deadline:
            if not process.alive:
                raise PeerFailedError(
                    f"the process ended before {url} answered; {process.log} ends:\n{process.log_tail()}"
                )
            try:
                async with session.get(url) as response:
                    if response.status == 200:
                        return
            except (aiohttp.ClientError, TimeoutError):
                pass
            await asyncio.sleep(0.2)
    raise PeerFailedError(f"{url} did not answer within {timeout_s:.0f} s; {process.log} ends:\n{process.log_tail()}")
