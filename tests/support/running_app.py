"""A real server for an application, in a thread of its own, and raw requests to it."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from litestar import Litestar

from forebay.web.server import Server, ServerHooks, bind, run_in_loop

PATIENCE_S = 20.0


@dataclass(frozen=True)
class RunningApp:
    """Where it listens."""

    host: str
    port: int

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def connect(self) -> socket.socket:
        connection = socket.create_connection((self.host, self.port), timeout=PATIENCE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def raw(self, request: bytes) -> bytes:
        """The whole answer to a request that says `Connection: close`."""
        with self.connect() as connection:
            connection.sendall(request)
            answer = bytearray()
            while chunk := connection.recv(65536):
                answer += chunk
        return bytes(answer)


@contextmanager
def running(app: Litestar, hooks: ServerHooks | None = None) -> Iterator[RunningApp]:
    """Serve `app` on a free port until the block ends."""
    hooks = hooks or ServerHooks()
    listening = threading.Event()
    started: list[tuple[asyncio.AbstractEventLoop, Server]] = []

    async def serve() -> None:
        server = Server(app, bind("127.0.0.1", 0), hooks_with(hooks, listening.set))
        started.append((asyncio.get_running_loop(), server))
        await server.run()

    thread = threading.Thread(target=lambda: run_in_loop(serve()), daemon=True)
    thread.start()
    assert listening.wait(PATIENCE_S), "the server did not start"
    loop, server = started[0]
    try:
        yield RunningApp("127.0.0.1", server.port)
    finally:
        loop.call_soon_threadsafe(server.stop)
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "the server did not stop"


def hooks_with(hooks: ServerHooks, told: Callable[[], None]) -> ServerHooks:
    def on_listening(port: int) -> None:
        hooks.on_listening(port)
        told()

    return ServerHooks(on_listening=on_listening, drain=hooks.drain)


def eventually(what: str, holds: Callable[[], bool], within_s: float = PATIENCE_S) -> None:
    """Wait until `holds`, and fail where it does not within `within_s`."""
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        time.sleep(0.01)
