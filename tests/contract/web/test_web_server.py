"""How a server begins and ends."""

import asyncio
import contextlib
import itertools
import json
import socket
from collections.abc import AsyncGenerator

import httpx
import pytest
from litestar import Litestar, get
from litestar.types import ASGIApp
from structlog.testing import capture_logs

from forebay.core.errors import ConfigurationError
from forebay.web import http_protocol
from forebay.web.app import build_app
from forebay.web.event_stream import EventStream
from forebay.web.responses import json_response
from forebay.web.server import Server, ServerHooks, bind
from tests.support.running_app import running


def app_that_sleeps(seconds: float, arrived: asyncio.Event | None = None) -> Litestar:
    @get("/")
    async def slow() -> ASGIApp:
        if arrived is not None:
            arrived.set()
        await asyncio.sleep(seconds)
        return json_response("done")

    return build_app([slow])


def test_a_port_that_is_taken_is_told_by_its_number() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"127.0.0.1:{port}.*another program"):
            bind("127.0.0.1", port)


@pytest.mark.parametrize(("host", "said"), [("192.0.2.1", "no such address"), ("no.such.host.invalid", "host")])
def test_an_address_of_another_machine_is_told(host: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        bind(host, 0)


def test_it_answers_while_it_drains_and_then_ends() -> None:
    told: list[int] = []
    answers: list[int] = []

    async def scenario() -> None:
        listening, draining, drained = asyncio.Event(), asyncio.Event(), asyncio.Event()

        def on_listening(port: int) -> None:
            told.append(port)
            listening.set()

        async def drain() -> None:
            draining.set()
            await drained.wait()

        server = Server(app_that_sleeps(0), bind("127.0.0.1", 0), ServerHooks(on_listening=on_listening, drain=drain))
        async with asyncio.timeout(20), asyncio.TaskGroup() as tasks, httpx.AsyncClient() as http:
            running = tasks.create_task(server.run())
            await listening.wait()
            server.stop()
            await draining.wait()
            answers.append((await http.get(f"http://127.0.0.1:{server.port}/")).status_code)
            assert not running.done()
            drained.set()
            await running
            with pytest.raises(httpx.ConnectError):
                await http.get(f"http://127.0.0.1:{told[0]}/")

    asyncio.run(scenario())
    assert answers == [200]


async def ended_in_the_middle(app: Litestar, arrived: asyncio.Event, *, late: bool, twice: bool) -> httpx.Response:
    """What a request gets that runs when the server ends: told twice, or when its drain is over."""
    listening, draining = asyncio.Event(), asyncio.Event()

    async def drain() -> None:
        draining.set()
        await asyncio.sleep(3600 if twice else 0)

    server = Server(app, bind("127.0.0.1", 0), ServerHooks(on_listening=lambda _port: listening.set(), drain=drain))
    async with asyncio.timeout(20), httpx.AsyncClient(timeout=60) as http, asyncio.TaskGroup() as tasks:
        running = tasks.create_task(server.run())
        await listening.wait()
        asking = tasks.create_task(
            http.get(f"http://127.0.0.1:{server.port}/?secret=1", headers={"X-Request-Id": "mine"})
        )
        if not late:
            await arrived.wait()
        server.stop()
        await draining.wait()
        if twice:
            server.stop()
        async with asyncio.timeout(2):
            await running
        return await asking


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("twice", [False, True])
def test_what_still_runs_when_it_ends_is_told_so(late: bool, twice: bool, caplog: pytest.LogCaptureFixture) -> None:
    """`late`: the request is still on its way when the server is told."""
    arrived = asyncio.Event()
    with capture_logs() as logs:
        answer = asyncio.run(ended_in_the_middle(app_that_sleeps(3600, arrived), arrived, late=late, twice=twice))
    assert answer.status_code == 503
    assert answer.headers["Content-Type"].startswith("application/problem+json")
    assert answer.headers["X-Request-Id"] == "mine"
    assert answer.json()["error"]["code"] == "capacity_unavailable"
    assert [entry["status"] for entry in logs if entry["event"] == "request"] == [503]
    assert caplog.records == []


@pytest.mark.parametrize("began", [False, True])
def test_a_stream_that_still_runs_when_it_ends_is_told_so(began: bool, caplog: pytest.LogCaptureFixture) -> None:
    arrived, closed = asyncio.Event(), asyncio.Event()

    async def events() -> AsyncGenerator[bytes, None]:
        try:
            if began:
                yield b"data: 1\n\n"
            arrived.set()
            await asyncio.sleep(3600)
            yield b"data: 2\n\n"
        finally:
            closed.set()

    @get("/")
    async def stream() -> ASGIApp:
        return EventStream(events())

    answer = asyncio.run(ended_in_the_middle(build_app([stream]), arrived, late=False, twice=True))
    assert closed.is_set()
    assert caplog.records == []
    if began:
        assert answer.status_code == 200
        first, last = answer.text.removesuffix("\n\n").split("\n\n")
        assert first == "data: 1"
        assert json.loads(last.removeprefix("data: "))["error"]["code"] == "capacity_unavailable"
    else:
        assert answer.status_code == 503


def test_a_client_that_does_not_read_does_not_hold_it_up(caplog: pytest.LogCaptureFixture) -> None:
    stuck = asyncio.Event()

    async def flood() -> AsyncGenerator[bytes, None]:
        for number in itertools.count():
            if number == 64:
                stuck.set()
            yield b"data: " + b"x" * 1_000_000 + b"\n\n"

    @get("/")
    async def stream() -> ASGIApp:
        return EventStream(flood())

    async def scenario() -> None:
        listening = asyncio.Event()
        hooks = ServerHooks(on_listening=lambda _port: listening.set())
        server = Server(build_app([stream]), bind("127.0.0.1", 0), hooks)
        async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
            running = tasks.create_task(server.run())
            await listening.wait()
            with socket.create_connection(("127.0.0.1", server.port)) as silent:
                silent.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.3):
                        await stuck.wait()
                server.stop()
                async with asyncio.timeout(2):
                    await running

    asyncio.run(scenario())
    assert not stuck.is_set(), "all of it fitted into the buffers: the test proves nothing"
    assert caplog.records == []


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: a\r\n"])
def test_a_head_that_does_not_arrive_is_not_waited_for(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_TIMEOUT_S", 0.2)
    with running(app_that_sleeps(0.5)) as app, app.connect() as connection:
        connection.sendall(sent)
        assert connection.recv(1) == b""
        # What takes long once the head is there is no concern of this limit.
        assert app.raw(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").startswith(b"HTTP/1.1 200 ")
