"""One child process and its output."""

import asyncio
import signal
from contextlib import suppress

from forebay.fleet.driver import LogEnd
from forebay.fleet.drivers.process_log import ProcessLog

LAST_OUTPUT_S = 1.0
"""How long output is waited for after the process has ended."""
READ_BYTES = 65536


class ChildProcess:
    """One child process and its log. One task at a time may wait on it."""

    def __init__(self, process: asyncio.subprocess.Process, log: ProcessLog, stop_timeout_s: float) -> None:
        self._process = process
        self._log = log
        self._stop_timeout_s = stop_timeout_s

    @property
    def return_code(self) -> int | None:
        return self._process.returncode

    async def exited(self) -> str:
        """Keep its output until it ends; returns how it ended."""
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(self._keep_output())
            await self._process.wait()
            # What the child started may still hold the pipe: what is not here soon is not waited for.
            await asyncio.wait({reading}, timeout=LAST_OUTPUT_S)
            reading.cancel()
        return self.ending()

    async def stop(self) -> None:
        """Ask it to end, kill it where it does not within the stop timeout, and wait until it is gone."""
        try:
            if self._process.returncode is None:
                with suppress(ProcessLookupError):
                    self._process.terminate()
            async with asyncio.timeout(self._stop_timeout_s):
                await self.exited()
        except TimeoutError:
            pass
        finally:
            if self._process.returncode is None:
                with suppress(ProcessLookupError):
                    self._process.kill()
                await self.exited()
            if self._process.stdin is not None:
                self._process.stdin.close()
            self._log.close()

    def log_end(self) -> LogEnd:
        """The end of its log, and where all of it is."""
        return LogEnd(self._log.path, self._log.tail())

    async def _keep_output(self) -> None:
        output = self._process.stdout
        assert output is not None, "the child was started with a pipe for its output"
        while chunk := await output.read(READ_BYTES):
            self._log.write(chunk)

    def ending(self) -> str:
        """How it ended."""
        code = self._process.returncode
        if code is not None and code < 0:
            return f"killed by {signal.Signals(-code).name}"
        return f"exit code {code}"
