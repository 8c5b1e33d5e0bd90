"""How a server begins and ends."""

import asyncio
import socket

import httpx
import pytest
from litestar import Litestar, get
from litestar.types import ASGIApp

from forebay.core.errors import ConfigurationError
from forebay.web.app import build_app
from forebay.web.responses import json_response
from forebay.web.server import Server, ServerHooks, bind


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


@pytest.mark.parametrize("late", [False, True])
def test_told_twice_it_ends_in_the_middle_of_drain_and_of_answers(late: bool) -> None:
    """`late`: the request is still on its way when the server is told."""

    async def scenario() -> None:
        listening, draining, arrived = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def drain() -> None:
            draining.set()
            await asyncio.sleep(3600)

        hooks = ServerHooks(on_listening=lambda _port: listening.set(), drain=drain)
        server = Server(app_that_sleeps(3600, arrived), bind("127.0.0.1", 0), hooks)
        async with asyncio.timeout(20), httpx.AsyncClient(timeout=60) as http, asyncio.TaskGroup() as tasks:
            running = tasks.create_task(server.run())
            await listening.wait()
            asking = tasks.create_task(_broken_off(http, server.port))
            if not late:
                await arrived.wait()
            server.stop()
            await draining.wait()
            server.stop()
            await running
            assert await asking

    asyncio.run(scenario())


async def _broken_off(http: httpx.AsyncClient, port: int) -> bool:
    try:
        await http.get(f"http://127.0.0.1:{port}/")
    except httpx.TransportError:
        return True
    return False
