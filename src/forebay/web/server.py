"""Running an application on a socket, until it is told to stop."""

import asyncio
import errno
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

import structlog
import uvicorn
from litestar import Litestar
from uvicorn.loops.auto import auto_loop_factory

from forebay.core.errors import ConfigurationError

logger = structlog.get_logger(__name__)

KEEP_ALIVE_S = 75
"""Longer than clients keep idle connections, so that it is they who close: then none sends into a closing one."""

BACKLOG = 2048
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to `host` and `port` (0: any free one). Raises ConfigurationError where that cannot be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigurationError(
            f"Cannot listen on {host}: {error.strerror}; set `host` to an address of this machine."
        ) from None
    try:
        if sys.platform != "win32":
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise ConfigurationError(f"Cannot listen on {host}:{port}: {_why(error)}", param="port") from None
    return bound


def _why(error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return "another program listens there; stop it or set another `port`."
        case errno.EACCES:
            return "this user may not use that port; set `port` to one above 1023."
        case errno.EADDRNOTAVAIL:
            return "this machine has no such address; set `host` to one that it has."
        case _:
            return f"{error.strerror}; set another `host` or `port`."


async def _no_drain() -> None:
    pass


def _tell_nobody(_port: int) -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class ServerHooks:
    """`on_listening` is told the port once connections are taken. `drain` is awaited when the server is told to stop,
    while it still answers; it must bound itself."""

    on_listening: Callable[[int], None] = _tell_nobody
    drain: Callable[[], Awaitable[None]] = _no_drain


class Server:
    """Serves one application on one bound socket.

    SIGTERM and SIGINT (where `run` is in the main thread) and `stop` drain and then end it, giving responses that are
    still being sent `close_timeout_s` seconds; the second time they end it at once.
    """

    def __init__(
        self, app: Litestar, bound: socket.socket, hooks: ServerHooks | None = None, *, close_timeout_s: int = 5
    ) -> None:
        self._socket = bound
        self._hooks = hooks or ServerHooks()
        self._stop = asyncio.Event()
        self._stop_now = asyncio.Event()
        self._uvicorn = _Uvicorn(_config(app, close_timeout_s), lambda: self._hooks.on_listening(self.port))

    @property
    def port(self) -> int:
        return self._socket.getsockname()[1]

    async def run(self) -> None:
        """Serve until told to stop."""
        with self._signals():
            async with asyncio.TaskGroup() as tasks:
                serving = tasks.create_task(self._uvicorn.serve(sockets=[self._socket]))
                stopping = tasks.create_task(self._stop_in_order())
                hurrying = tasks.create_task(self._stop_at_once(stopping))
                await asyncio.wait((serving,))
                stopping.cancel()
                hurrying.cancel()
        # A connection that came while the server was closing would otherwise never be answered, nor closed.
        self._uvicorn.break_off()

    def stop(self) -> None:
        """As a signal does. To be called in the thread of `run`'s event loop."""
        (self._stop_now if self._stop.is_set() else self._stop).set()

    async def _stop_in_order(self) -> None:
        await self._stop.wait()
        logger.info("draining")
        try:
            await self._hooks.drain()
        finally:
            self._uvicorn.should_exit = True

    async def _stop_at_once(self, stopping: "asyncio.Task[None]") -> None:
        await self._stop_now.wait()
        logger.warning("stopping at once")
        stopping.cancel()
        self._uvicorn.abort()

    @contextmanager
    def _signals(self) -> Generator[None, None, None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()

        def handle(_signal: int, _frame: FrameType | None) -> None:
            loop.call_soon_threadsafe(self.stop)

        before = {each: signal.signal(each, handle) for each in _SIGNALS}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)


class _Uvicorn(uvicorn.Server):
    """uvicorn's server without its own signal handlers, telling when it listens."""

    def __init__(self, config: uvicorn.Config, on_listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_listening = on_listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_listening()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    def abort(self) -> None:
        """Break off every connection, and end."""
        self.should_exit = self.force_exit = True
        self.break_off()

    def break_off(self) -> None:
        """Give up whatever is still being answered, and close its connections."""
        for task in self.server_state.tasks:
            task.cancel()
        for connection in self.server_state.connections:
            connection.transport.abort()


def _config(app: Litestar, close_timeout_s: int) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http="h11" if sys.platform == "win32" else "httptools",
        ws="none",
        proxy_headers=False,
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=close_timeout_s,
    )


def run_in_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run `main` in a new event loop, the fastest that this machine has."""
    with asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
        runner.run(main)
