"""A real NATS server with JetStream on this machine's loopback, from a wheel."""

import json
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers.process import ServerProcess, free_ports

START_LIMIT_S = 20.0


class NatsServer:
    """A server whose streams stay while it is stopped and started again, always at the same port."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process = ServerProcess(directory / "log")
        (self.port,) = free_ports(1)
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
        self._process.start(command, self._answers, START_LIMIT_S)

    def stop(self) -> None:
        """At once, by force; whoever is connected is cut off."""
        self._process.end()

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
