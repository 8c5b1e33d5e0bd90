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
from forebay.web.running import running_requests

logger = structlog.get_logger(__name__)

KEEP_ALIVE_S = 75
"""Longer than clients keep idle connections, so that it is they who close: then none sends into a closing one."""

BACKLOG = 2048

END_LIMIT_S = 0.5
"""For the last words to requests that are ended."""
GIVE_UP_S = 2
"""For requests that do not even end when their connection is gone."""
CLOSE_LIMIT_S = 0.4
"""For what was written to leave, after which connections are broken off."""
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

    SIGTERM and SIGINT (where `run` is in the main thread) and `stop` drain it; the second time they cut that short.
    What still runs then is ended with CapacityUnavailable, within a second.
    """

    def __init__(self, app: Litestar, bound: socket.socket, hooks: ServerHooks | None = None) -> None:
        self._socket = bound
        self._requests = running_requests(app)
        self._hooks = hooks or ServerHooks()
        self._stop = asyncio.Event()
        self._stop_now = asyncio.Event()
        self._uvicorn = _Uvicorn(_config(app), lambda: self._hooks.on_listening(self.port))

    @property
    def port(self) -> int:
        return self._socket.getsockname()[1]

    async def run(self) -> None:
        """Serve until told to stop."""
        with self._signals():
            async with asyncio.TaskGroup() as tasks:
                serving = tasks.create_task(self._uvicorn.serve(sockets=[self._socket]))
                stopping = tasks.create_task(self._stop_in_order())
                await asyncio.wait((serving,))
                stopping.cancel()
        # A connection that came while the server was closing would otherwise never be answered, nor closed.
        self._uvicorn.break_off()

    def stop(self) -> None:
        """As a signal does. To be called in the thread of `run`'s event loop."""
        (self._stop_now if self._stop.is_set() else self._stop).set()

    async def _stop_in_order(self) -> None:
        await self._stop.wait()
        logger.info("draining")
        try:
            await self._drain_unless_hurried()
        finally:
            await self._requests.end(END_LIMIT_S)
            self._uvicorn.should_exit = True
        # A client that does not read would keep its connection, and the server, from closing.
        await asyncio.sleep(CLOSE_LIMIT_S)
        self._uvicorn.break_off()

    async def _drain_unless_hurried(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            draining = tasks.create_task(self._drain())
            hurried = tasks.create_task(self._stop_now.wait())
            await asyncio.wait((draining, hurried), return_when=asyncio.FIRST_COMPLETED)
            if hurried.done():
                logger.warning("stopping at once")
            draining.cancel()
            hurried.cancel()

    async def _drain(self) -> None:
        await self._hooks.drain()

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

    def break_off(self) -> None:
        """Close every connection, whatever was still to be sent."""
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def _config(app: Litestar) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        # By name, as the parser below it is not there on Windows.
        http="h11" if sys.platform == "win32" else "forebay.web.http_protocol:HttpProtocol",
        ws="none",
        proxy_headers=False,
        lifespan="on",
        access_log=False,
        log_config=None,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GIVE_UP_S,
    )


def run_in_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run `main` in a new event loop, the fastest that this machine has."""
    with asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
        runner.run(main)
