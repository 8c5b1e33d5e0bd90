"""An answer on its way to its caller: what it is billed by, and where a quota cuts it."""

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from forebay.api import sse
from forebay.metering.usage import TokenUsage
from forebay.serving.answer import BYTES_PER_TOKEN, TOKENS_AHEAD, Answer
from forebay.serving.request import InferenceRequest
from forebay.serving.settler import Settler
from forebay.tenancy.resources import Quota
from tests.support.metered import ENDPOINT, PROMPT_TOKENS, REQUEST, Bench, asked, lease, used


def chunk(text: str = "x", output: int | None = None, **more: object) -> bytes:
    fields: dict[str, Any] = {"id": "c", "object": "chat.completion.chunk", "model": "inner", **more}
    fields["choices"] = [{"index": 0, "delta": {"content": text}, "finish_reason": None}]
    if output is not None:
        fields["usage"] = usage(output)
    return sse.event(json.dumps(fields).encode())


def usage(output: int) -> dict[str, int]:
    return {
        "prompt_tokens": PROMPT_TOKENS,
        "completion_tokens": output,
        "total_tokens": PROMPT_TOKENS + output,
    }


class Upstream:
    """Says `chunks`, one by one, and counts how many were taken."""

    def __init__(self, *chunks: bytes) -> None:
        self._chunks = chunks
        self.taken = 0

    async def whole(self) -> bytes:
        return b"".join(self._chunks)

    async def events(self) -> AsyncGenerator[bytes]:
        for each in self._chunks:
            self.taken += 1
            yield each


class Teller:
    """A replica's book that says `told`."""

    def __init__(self, told: TokenUsage | None = None) -> None:
        self._told = told

    async def usage_of(self, endpoint: object, request_id: str) -> TokenUsage | None:
        return self._told


class Caller:
    """One answer, read to its end."""

    def __init__(self, upstream: Upstream, *quotas: Quota, told: TokenUsage | None = None) -> None:
        self.bench = Bench(*quotas)
        self.upstream = upstream
        self._settler = Settler(Teller(told))
        self.left = 0
        self.kept: Sequence[bytes] = ()

    async def _answer(self, request: InferenceRequest) -> Answer:
        run = self.bench.run(request)
        admitted = await run.begin()
        run.dispatched(lease())
        return Answer(
            run=run,
            admitted=admitted,
            upstream=self.upstream,
            endpoint=ENDPOINT,
            settler=self._settler,
            leave=self._leave,
        )

    async def _leave(self) -> None:
        self.left += 1

    def whole(self, request: InferenceRequest = REQUEST) -> bytes:
        async def read() -> bytes:
            answer = await self._answer(request)
            body = await answer.whole()
            self.kept = answer.told
            return body

        return asyncio.run(read())

    def streamed(self, body: dict[str, Any], **more: Any) -> list[Any]:
        """The events as JSON; None for the end mark, before which the run must have ended."""

        async def read() -> bytes:
            answer = await self._answer(asked(body, stream=True, **more))
            told = b""
            async for part in answer.events():
                told += part
                assert (sse.DONE in part) <= bool(self.bench.desk.closed), "it ends before its caller knows"
            self.kept = answer.told
            return told

        events = sse.SseParser().feed(asyncio.run(read()))
        return [None if event.is_done else json.loads(event.data) for event in events]

    @property
    def billed(self) -> tuple[str, int, str, int]:
        (record,) = self.bench.desk.closed
        return record.status, record.http_status, record.counted, record.output_tokens


def test_a_whole_answer_is_billed_by_the_usage_that_it_tells_and_else_by_its_length() -> None:
    told = Caller(Upstream(json.dumps({"model": "inner", "usage": usage(7)}).encode()))
    assert json.loads(told.whole())["model"] == "chat"
    assert told.billed == ("completed", 200, "engine", 7)
    for silent in (b'{"model": "inner"}', b'{"model": "inner", "usage": 3}'):
        untold = Caller(Upstream(silent))
        body = untold.whole()
        assert untold.billed == ("completed", 200, "estimated", len(body) // BYTES_PER_TOKEN)


def test_a_stream_is_billed_by_the_last_usage_and_else_by_its_events() -> None:
    told = Caller(Upstream(chunk(output=1), chunk(output=2), sse.DONE))
    assert len(told.streamed({})) == 3
    assert told.billed == ("completed", 200, "engine", 2)
    untold = Caller(Upstream(chunk(), chunk(), chunk(), sse.DONE))
    untold.streamed({})
    assert untold.billed == ("completed", 200, "estimated", 3)


def test_a_stream_that_its_quota_does_not_cover_is_ended_and_billed_by_the_replica_s_book() -> None:
    quota = Quota(id="team", tenant="team", tokens_per_minute=PROMPT_TOKENS + TOKENS_AHEAD + 8)
    upstream = Upstream(chunk("a", output=8), chunk("b", output=9), chunk("never", output=10))
    caller = Caller(upstream, quota, told=used(11))
    *said, last, with_usage, done = caller.streamed({"stream_options": {"include_usage": True}})
    assert [event["choices"][0]["delta"] for event in said] == [{"content": "a"}, {"content": "b"}]
    assert last["choices"] == [{"index": 0, "delta": {}, "finish_reason": "length"}]
    assert (with_usage["usage"]["completion_tokens"], done) == (11, None)
    assert (caller.left, upstream.taken) == (1, 2)
    assert caller.billed == ("stopped", 200, "engine", 11)


def test_what_is_left_of_an_answer_at_most_is_all_that_has_to_be_covered() -> None:
    quota = Quota(id="team", tenant="team", tokens_per_minute=PROMPT_TOKENS + 20, max_tokens=20)
    caller = Caller(Upstream(*(chunk(output=output) for output in range(1, 21)), sse.DONE), quota)
    assert len(caller.streamed({})) == 21
    assert caller.billed == ("completed", 200, "engine", 20)


@pytest.mark.parametrize(("output", "status"), [(16, "completed"), (17, "stopped")])
def test_each_answer_runs_ahead(output: int, status: str) -> None:
    quota = Quota(id="team", tenant="team", tokens_per_minute=PROMPT_TOKENS + 2 * TOKENS_AHEAD + 16)
    caller = Caller(Upstream(chunk(output=output), sse.DONE), quota)
    caller.streamed({"n": 2})
    assert caller.billed[0] == status


def test_what_was_asked_for_or_is_not_limited_is_never_cut() -> None:
    quota = Quota(id="team", tenant="team", tokens_per_minute=PROMPT_TOKENS + 16)
    for body, quotas in (({"max_tokens": 16}, [quota]), ({}, [])):
        caller = Caller(Upstream(chunk(output=16), chunk(output=99), sse.DONE), *quotas)
        caller.streamed(body)
        assert caller.billed[0] == "completed"


def test_a_stream_that_tells_of_an_error_has_failed() -> None:
    failure = sse.event(b'{"error": {"message": "gone"}}')
    caller = Caller(Upstream(chunk(output=3), failure))
    assert caller.streamed({})[-1] == {"error": {"message": "gone"}}
    assert caller.billed == ("failed", 502, "last_seen", 3)
    untold = Caller(Upstream(chunk(), chunk(), failure))
    untold.streamed({})
    assert untold.billed == ("failed", 502, "last_seen", 2)


@pytest.mark.parametrize("opted_in", [False, True])
def test_what_was_told_is_kept_only_where_the_tenant_wants_that(opted_in: bool) -> None:
    principal = replace(REQUEST.principal, log_content=opted_in)
    stream = Caller(Upstream(chunk("secret"), sse.DONE))
    stream.streamed({}, principal=principal)
    whole = Caller(Upstream(b'{"model": "inner"}'))
    body = whole.whole(replace(REQUEST, principal=principal))
    assert (b"secret" in b"".join(stream.kept), list(whole.kept)) == (opted_in, [body] if opted_in else [])
