"""What a replica is asked of a request that it had, and what is made of its answers."""

import asyncio
import json
from dataclasses import replace

from forebay.fleet.upstream import USAGE_ATTEMPTS, UpstreamClient
from forebay.metering.usage import TokenUsage
from tests.unit.test_fleet_upstream import SETTINGS, server, whole

FINAL = TokenUsage(prompt_tokens=21, cached_tokens=16, output_tokens=9)


def told(output: int, *, ended: bool) -> bytes:
    book = {"request_id": "r/1", "prompt_tokens": 21, "cached_tokens": 16, "completion_tokens": output}
    return whole(json.dumps({**book, "finish_reason": "abort" if ended else None, "ended": ended}).encode())


def asked(*answers: bytes, tells_usage: bool = True) -> tuple[TokenUsage | None, list[bytes]]:
    """What the client makes of these answers, one after the other (empty: none), and the requests that it sent."""
    heads: list[bytes] = []

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answers[len(heads) - 1])
        await writer.drain()

    async def run() -> TokenUsage | None:
        async with server(script) as endpoint, UpstreamClient(SETTINGS) as client:
            return await client.usage_of(replace(endpoint, tells_usage=tells_usage), "r/1")

    return asyncio.run(run()), heads


def test_its_book_is_asked_once_where_the_request_has_ended() -> None:
    usage, heads = asked(told(9, ended=True))
    assert usage == FINAL
    (head,) = heads
    assert head.startswith(b"GET /v1/requests/r/1/usage?wait_s=0.1 ")
    assert b"authorization: bearer the-key" in head.lower()


def test_it_is_asked_again_while_the_request_runs() -> None:
    usage, heads = asked(told(3, ended=False), told(9, ended=True))
    assert (usage, len(heads)) == (FINAL, 2)


def test_a_request_that_does_not_end_counts_as_far_as_it_is() -> None:
    usage, heads = asked(*(told(number, ended=False) for number in range(USAGE_ATTEMPTS)))
    assert usage == replace_output(USAGE_ATTEMPTS - 1)
    assert len(heads) == USAGE_ATTEMPTS


def replace_output(output: int) -> TokenUsage:
    return TokenUsage(prompt_tokens=21, cached_tokens=16, output_tokens=output)


def test_it_is_asked_again_where_it_does_not_answer() -> None:
    usage, heads = asked(b"", told(9, ended=True))
    assert (usage, len(heads)) == (FINAL, 2)


def test_what_it_does_not_know_it_is_not_asked_again() -> None:
    for answer in (whole(b"{}", "404 Not Found"), whole(b"no JSON"), whole(b'{"prompt_tokens": 1}')):
        usage, heads = asked(answer)
        assert (usage, len(heads)) == (None, 1)


def test_one_that_keeps_no_book_is_not_asked() -> None:
    assert asked(tells_usage=False) == (None, [])
