"""Streams over real sockets: how they begin, how they fail, how they end when nobody listens any more."""

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import httpx
import pytest
from litestar import Litestar, Request, get
from litestar.params import FromPath
from litestar.types import ASGIApp

from forebay.api import sse
from forebay.core.errors import CapacityUnavailable
from forebay.web.app import build_app
from forebay.web.disconnect import until_disconnect
from forebay.web.event_stream import EventStream
from forebay.web.responses import json_response
from tests.support.running_app import RunningApp, eventually, running

BOUND_S = 2.0


class Watched:
    """Generators that say when they run, and in which task they end."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.ended = threading.Event()
        self.tasks: list[asyncio.Task[Any] | None] = []

    async def events(self, kind: str) -> AsyncGenerator[bytes, None]:
        self.tasks.append(asyncio.current_task())
        self.begun.set()
        try:
            if kind == "fails early":
                raise CapacityUnavailable("full", retry_after_s=2)
            if kind == "breaks early":
                raise KeyError("a secret")
            if kind == "never begins":
                await asyncio.sleep(3600)
            yield sse.event(b"1")
            if kind == "fails late":
                raise CapacityUnavailable("full")
            if kind == "breaks late":
                raise KeyError("a secret")
            while kind == "floods":
                yield sse.event(b"x" * 65536)
            if kind == "falls silent":
                await asyncio.sleep(3600)
            yield sse.DONE
        finally:
            self.tasks.append(asyncio.current_task())
            self.ended.set()

    async def work(self) -> None:
        self.begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            self.ended.set()


def app_of(watched: Watched) -> Litestar:
    @get("/stream/{kind:str}")
    async def stream(kind: FromPath[str]) -> ASGIApp:
        return EventStream(watched.events(kind))

    @get("/whole")
    async def whole(request: Request[Any, Any, Any]) -> ASGIApp:
        return json_response(await until_disconnect(request.receive, watched.work()))

    @get("/broken")
    async def broken() -> ASGIApp:
        raise KeyError("a secret")

    return build_app([stream, whole, broken])


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def app(watched: Watched) -> Iterator[RunningApp]:
    with running(app_of(watched)) as started:
        yield started


def test_a_stream_is_not_held_back_by_anything_on_its_way(app: RunningApp, watched: Watched) -> None:
    response = httpx.get(f"{app.url}/stream/ends")
    assert response.content == b"data: 1\n\ndata: [DONE]\n\n"
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-cache"
    assert response.headers["x-accel-buffering"] == "no"
    assert response.headers["x-request-id"]
    assert watched.ended.is_set()


def test_what_fails_before_the_first_event_has_its_own_status(app: RunningApp, watched: Watched) -> None:
    response = httpx.get(f"{app.url}/stream/fails early")
    assert response.status_code == 503
    assert response.headers["retry-after"] == "2"
    assert response.json()["type"] == "urn:forebay:problem:capacity-unavailable"
    assert watched.ended.is_set()


@pytest.mark.parametrize("path", ["/stream/breaks early", "/broken"])
def test_what_nobody_foresaw_is_told_without_its_words(
    app: RunningApp, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    response = httpx.get(f"{app.url}{path}", headers={"X-Request-Id": "find-me"})
    assert response.status_code == 500
    assert response.json()["type"] == "urn:forebay:problem:internal-error"
    assert "find-me" in response.json()["detail"]
    assert "secret" not in response.text
    logged = capsys.readouterr().out
    assert "find-me" in logged
    assert "KeyError" in logged
    assert "a secret" not in logged


@pytest.mark.parametrize(("kind", "code"), [("fails late", "capacity_unavailable"), ("breaks late", "internal_error")])
def test_what_fails_later_ends_the_stream_with_an_error_event(app: RunningApp, kind: str, code: str) -> None:
    response = httpx.get(f"{app.url}/stream/{kind}")
    assert response.status_code == 200
    first, last = sse.SseParser().feed(response.content)
    assert first.data == b"1"
    assert json.loads(last.data)["error"]["code"] == code
    assert b"secret" not in response.content


@pytest.mark.parametrize("kind", ["never begins", "falls silent", "floods"])
def test_a_stream_ends_when_its_client_leaves(app: RunningApp, watched: Watched, kind: str) -> None:
    with app.connect() as connection:
        connection.sendall(f"GET /stream/{kind.replace(' ', '%20')} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        assert watched.begun.wait(BOUND_S)
        if kind != "never begins":
            assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
        assert not watched.ended.is_set()
    assert watched.ended.wait(BOUND_S)
    begun_in, ended_in = watched.tasks
    assert begun_in is ended_in


def test_whole_answers_are_given_up_when_their_client_leaves(app: RunningApp, watched: Watched) -> None:
    with app.connect() as connection:
        connection.sendall(b"GET /whole HTTP/1.1\r\nHost: a\r\n\r\n")
        assert watched.begun.wait(BOUND_S)
        assert not watched.ended.is_set()
    assert watched.ended.wait(BOUND_S)


def test_a_connection_is_used_again_after_a_stream(app: RunningApp, watched: Watched) -> None:
    request = b"GET /stream/ends HTTP/1.1\r\nHost: a\r\n\r\n"
    with app.connect() as connection:
        for _ in range(3):
            connection.sendall(request)
            received = bytearray()
            while not received.endswith(b"0\r\n\r\n"):
                chunk = connection.recv(4096)
                assert chunk, "the server closed the connection"
                received += chunk
    eventually("the stream is closed", watched.ended.is_set)
