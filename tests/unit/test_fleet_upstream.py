"""The upstream client against real sockets that answer well, badly or not at all."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from forebay.core.errors import CapacityUnavailable, ContextTooLong, ForebayError, UpstreamFailed
from forebay.fleet.replica import Endpoint
from forebay.fleet.settings import FleetSettings
from forebay.fleet.supervisor import ProbeError
from forebay.fleet.upstream import UnreachableError, UpstreamClient

SETTINGS = FleetSettings(connect_timeout_s=1, idle_timeout_s=0.2, probe_timeout_s=0.2)
JSON_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def chunked(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def whole(body: bytes, status: str = "200 OK", content_type: str = "application/json", more: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


def saying(answer: bytes, *, then_wait: bool = False) -> Script:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        if then_wait:
            await reader.read()

    return script


@asynccontextmanager
async def server(script: Script) -> AsyncIterator[Endpoint]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await script(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        root = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        yield Endpoint(f"{root}/v1", "their-model", "the-key", True, f"{root}/health")


async def post(endpoint: Endpoint, *, stream: bool = False) -> bytes:
    async with (
        UpstreamClient(SETTINGS) as client,
        client.post("big", endpoint, "chat/completions", b"{}", stream=stream, headers={}) as answer,
    ):
        if stream:
            return b"".join([chunk async for chunk in answer.events()])
        return await answer.whole()


def asked(script: Script, *, stream: bool = False) -> bytes:
    async def run() -> bytes:
        async with server(script) as endpoint:
            return await post(endpoint, stream=stream)

    return asyncio.run(run())


def refused(script: Script, *, stream: bool = False) -> ForebayError:
    with pytest.raises(ForebayError) as error:
        asked(script, stream=stream)
    assert "the-key" not in error.value.detail
    return error.value


def test_a_whole_answer_and_what_was_sent_for_it() -> None:
    seen = b""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        seen = await reader.readuntil(b"\r\n\r\n{}")
        writer.write(whole(b'{"ok": true}'))
        await writer.drain()

    assert asked(script) == b'{"ok": true}'
    head = seen.decode().lower()
    assert head.startswith("post /v1/chat/completions http/1.1\r\n")
    assert "authorization: bearer the-key" in head
    assert "content-type: application/json" in head
    assert "accept-encoding: identity" in head


def test_a_stream_is_relayed_byte_for_byte() -> None:
    events = [b'data: {"a": 1}\n\n', b"data: ", b'{"b": 2}\n\n: note\n\n', b"data: [DO", b"NE]\n\n"]
    answer = STREAM_HEAD + b"".join(chunked(event) for event in events) + b"0\r\n\r\n"
    assert asked(saying(answer), stream=True) == b"".join(events)


@pytest.mark.parametrize(
    ("answer", "stream"),
    [
        (b"", False),
        (b"not HTTP at all\r\n\r\n", False),
        (JSON_HEAD + b"Content-Length: 100\r\n\r\n{", False),
        (whole(b"<html>", content_type="text/html"), False),
        (whole(b"{}"), True),
        (whole(b"", "302 Found", more="Location: http://elsewhere/\r\n"), False),
        (whole(b"oh", "500 Internal Server Error"), False),
        (STREAM_HEAD + chunked(b"data: {}\n\n"), True),
        (STREAM_HEAD + chunked(b"data: {}\n\n") + b"zz\r\n", True),
        (STREAM_HEAD + chunked(b"data: {}\n\n") + b"0\r\n\r\n", True),
        (STREAM_HEAD + chunked(b'data: {"error": null}\n\n') + b"0\r\n\r\n", True),
        (STREAM_HEAD + chunked(b'data: {"text": "[DONE]"}\n\n') + b"0\r\n\r\n", True),
        (STREAM_HEAD + chunked(b'data: {"text": "\\"error\\" [DONE]') + b"0\r\n\r\n", True),
        (STREAM_HEAD + chunked(b"data: oh no\n\ndata: [DONE]\n\n") + b"0\r\n\r\n", True),
    ],
)
def test_garbage_and_broken_answers_are_the_replica_s_failure(answer: bytes, stream: bool) -> None:
    assert type(refused(saying(answer), stream=stream)) is UpstreamFailed


def test_a_stream_that_ends_with_an_error_of_its_own_is_relayed() -> None:
    event = b'data: {"error": {"message": "no"}}\n\n'
    assert asked(saying(STREAM_HEAD + chunked(event) + b"0\r\n\r\n"), stream=True) == event


@pytest.mark.parametrize("answer", [b"", JSON_HEAD + b"Content-Length: 9\r\n\r\n{", STREAM_HEAD])
def test_a_silent_replica_does_not_hold_its_caller_for_ever(answer: bytes) -> None:
    error = refused(saying(answer, then_wait=True), stream=answer == STREAM_HEAD)
    assert type(error) is UpstreamFailed
    assert "silent" in error.detail


def test_errors_keep_their_meaning() -> None:
    too_long = json.dumps({"error": {"message": "long", "code": "context_length_exceeded"}}).encode()
    assert type(refused(saying(whole(too_long, "400 Bad Request")), stream=True)) is ContextTooLong
    busy = refused(saying(whole(b"", "503 Service Unavailable", more="Retry-After: 9\r\n")))
    assert (type(busy), busy.retry_after_s) == (CapacityUnavailable, 9)


def test_nobody_there() -> None:
    async def run() -> None:
        async with server(saying(b"")) as endpoint:
            pass
        await post(endpoint)

    with pytest.raises(UnreachableError):
        asyncio.run(run())


def test_leaving_early_closes_the_connection() -> None:
    async def run() -> None:
        closed = asyncio.Event()

        async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n{}")
            writer.write(STREAM_HEAD + chunked(b"data: {}\n\n"))
            await writer.drain()
            assert await reader.read() == b""
            closed.set()

        async with server(script) as endpoint, UpstreamClient(SETTINGS) as client:
            async with client.post("big", endpoint, "completions", b"{}", stream=True, headers={}) as answer:
                async for _ in answer.events():
                    break
            async with asyncio.timeout(5):
                await closed.wait()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("answer", "knows_more", "problem"),
    [
        (whole(b"{}"), True, None),
        (whole(b"{}", "503 Service Unavailable"), True, "status 503"),
        (whole(b"{}", "404 Not Found"), True, "status 404"),
        (whole(b"{}", "404 Not Found"), False, None),
        (whole(b"{}", "500 Oh"), False, "status 500"),
        (whole(b"{}", "401 Unauthorized"), False, "refused the configured key"),
        (b"", True, "cannot be reached"),
    ],
)
def test_probes(answer: bytes, knows_more: bool, problem: str | None) -> None:
    async def run() -> None:
        async with server(saying(answer)) as endpoint, UpstreamClient(SETTINGS) as client:
            await client.probe(Endpoint(endpoint.base_url, "m", "the-key", knows_more, endpoint.health_url))

    if problem is None:
        asyncio.run(run())
    else:
        with pytest.raises(ProbeError, match=problem) as failed:
            asyncio.run(run())
        assert "the-key" not in str(failed.value)


def test_a_probe_of_a_silent_server_ends() -> None:
    async def run() -> None:
        async with server(saying(b"", then_wait=True)) as endpoint, UpstreamClient(SETTINGS) as client:
            await client.probe(endpoint)

    with pytest.raises(ProbeError, match="no answer"):
        asyncio.run(run())


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r", b"\n", b""])
def test_every_line_end_and_a_last_one_that_is_missing_will_do(end: bytes) -> None:
    events = b"data: {}\n\n" + b"data: [DONE]" + end
    assert asked(saying(STREAM_HEAD + chunked(events) + b"0\r\n\r\n"), stream=True).startswith(events)


def test_of_a_stream_that_dies_within_an_event_only_the_whole_ones_are_told() -> None:
    async def run() -> list[bytes]:
        told: list[bytes] = []
        answer = STREAM_HEAD + chunked(b'data: {"a": 1}\n\ndata: {"a": ')
        async with (
            server(saying(answer)) as endpoint,
            UpstreamClient(SETTINGS) as client,
            client.post("big", endpoint, "completions", b"{}", stream=True, headers={}) as relayed,
        ):
            with pytest.raises(UpstreamFailed):
                async for events in relayed.events():
                    told.append(events)  # noqa: PERF401  # what came before the failure counts
        return told

    assert asyncio.run(run()) == [b'data: {"a": 1}\n\n']


UNUSABLE = [
    Endpoint("http://127.0.0.1:9/v1", "m", "a\nkey", True, "http://127.0.0.1:9/health"),
    Endpoint(f"http://{'a' * 70}.b/v1", "m", None, True, f"http://{'a' * 70}.b/health"),
    Endpoint("http://a..b/v1", "m", None, True, "http://a..b/health"),
    Endpoint("http://[::1/v1", "m", None, True, "http://[::1/health"),
    Endpoint("http://a:99999/v1", "m", None, True, "http://a:99999/health"),
]


@pytest.mark.parametrize("endpoint", UNUSABLE, ids=range(len(UNUSABLE)))
def test_an_endpoint_that_cannot_be_used_is_that_pool_s_failure(endpoint: Endpoint) -> None:
    async def run() -> None:
        async with UpstreamClient(SETTINGS) as client:
            with pytest.raises(ProbeError):
                await client.probe(endpoint)
            with pytest.raises(ProbeError):
                await client.windows(endpoint)

    asyncio.run(run())
    with pytest.raises((UpstreamFailed, UnreachableError)) as failed:
        asyncio.run(post(endpoint))
    assert "key" not in str(failed.value)
