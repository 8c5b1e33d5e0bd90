"""The process of a server that a test starts: it dies with the test, however that ends."""

import ctypes
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

POLL_S = 0.05
STOP_LIMIT_S = 60.0
PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG."""


class ServerProcess:
    """What the server says goes into the file `log`. Can be started again once it was ended."""

    def __init__(self, log: Path, *, dies_by: signal.Signals = signal.SIGKILL) -> None:
        self._log = log
        self._dies_by = dies_by
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server runs"
        return self._process.pid

    def start(self, command: Sequence[str], answers: Callable[[], bool], limit_s: float, **more: Any) -> None:
        """Returns once it `answers`. `more` is for `Popen`."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Between fork and exec, after the user was changed, which would undo it.
                preexec_fn=self._die_with_parent,  # noqa: PLW1509  # it takes no lock
                **more,
            )
        deadline = time.monotonic() + limit_s
        while not answers():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(POLL_S)

    def send(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)

    def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        """By that signal, and by force where it takes too long."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _die_with_parent(self) -> None:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, self._dies_by)


def free_ports(count: int) -> list[int]:
    """Different ones of the loopback, of which nobody listens to any now."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
