"""A real NATS server with JetStream on this machine's loopback, from a wheel."""

import ctypes
import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_LIMIT_S = 20.0
POLL_S = 0.05
PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG."""


class NatsServer:
    """A server whose streams stay while it is stopped and started again, always at the same port."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _free_port()
        settings = {
            "listen": f"127.0.0.1:{self.port}",
            "jetstream": {"store_dir": str(directory / "streams"), "sync_interval": "always"},
        }
        # What it reads is a superset of JSON.
        (directory / "nats.conf").write_text(json.dumps(settings))

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [str(Path(sys.executable).parent / "nats-server"), "-c", str(self._directory / "nats.conf")]
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_die_with_parent,  # noqa: PLW1509  # no thread of ours holds a lock that it would need
            )
        deadline = time.monotonic() + START_LIMIT_S
        while not self._answers():
            assert self._process.poll() is None, (self._directory / "log").read_text()
            assert time.monotonic() < deadline, (self._directory / "log").read_text()
            time.sleep(POLL_S)

    def stop(self) -> None:
        """At once, by force; whoever is connected is cut off."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                return connection.recv(5) == b"INFO "
        except OSError:
            return False


@contextmanager
def nats_server() -> Iterator[NatsServer]:
    """A running server until the end of the block. It dies with this process, however that ends."""
    with tempfile.TemporaryDirectory(prefix="forebay-nats-", ignore_cleanup_errors=True) as directory:
        server = NatsServer(Path(directory))
        try:
            server.start()
            yield server
        finally:
            server.stop()


def _die_with_parent() -> None:
    """Between fork and exec."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
