"""Quotas: what is refused and how that is told, what is taken and what is given back. To the token.

When a refused request is let in again is told to the millisecond; `TOLERANCE_S` is allowed for what a request takes.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionChunk

from tests.acceptance.operated import BRIEF_TOKENS, Operated, chat
from tests.acceptance.processes import until

TOLERANCE_S = 0.2
PROMPT_TOKENS = 21
"""Of `chat()`, by the model's own template."""
ROUTE = {"route": "chat/completions"}

Refused = openai.APIStatusError


def refused(ask: Callable[[], object]) -> Refused:
    with pytest.raises(openai.APIStatusError) as caught:
        ask()
    return caught.value


def told(error: Refused) -> tuple[int, str]:
    body: dict[str, Any] = error.response.json()
    return error.status_code, body["type"].removeprefix("urn:forebay:problem:")


def wait_told(error: Refused) -> float:
    """Seconds, by the finer of the two headers; the coarser is that rounded up."""
    headers = error.response.headers
    milliseconds = int(headers["retry-after-ms"])
    assert int(headers["retry-after"]) == max(1, -(-milliseconds // 1000))
    return milliseconds / 1000


def limits_told(headers: Any, of: str) -> tuple[int, int, str]:
    names = (f"x-ratelimit-{what}-{of}" for what in ("limit", "remaining", "reset"))
    limit, remaining, reset = (headers[name] for name in names)
    return int(limit), int(remaining), reset


@pytest.mark.parametrize(
    ("limits", "asked", "kind", "code"),
    [
        ({"requests_per_minute": 60, "request_burst": 1}, {}, "request-rate-exceeded", "rate_limit_exceeded"),
        (
            {"tokens_per_minute": 26 * 60, "token_burst": 26},
            {"max_tokens": 26 - PROMPT_TOKENS},
            "token-rate-exceeded",
            "rate_limit_exceeded",
        ),
    ],
)
def test_a_rate_lets_in_when_it_said_and_not_before(
    service: Operated, limits: dict[str, int], asked: dict[str, int], kind: str, code: str
) -> None:
    """Each bucket is emptied by one request and full again after a second."""
    client = service.customer(**limits)

    def ask() -> object:
        return client.chat.completions.create(**chat(**asked))

    ask()
    first = refused(ask)
    at = time.monotonic()
    assert isinstance(first, openai.RateLimitError)
    assert told(first) == (429, kind)
    assert first.code == code
    assert first.type == kind.partition("-")[0] + "s"
    assert first.response.headers["x-should-retry"] == "true"
    wait_s = wait_told(first)
    assert 0.3 < wait_s <= 1.0
    time.sleep(max(0.0, at + wait_s - TOLERANCE_S - time.monotonic()))
    assert wait_told(refused(ask)) <= TOLERANCE_S + 0.01
    time.sleep(max(0.0, at + wait_s - time.monotonic()))
    ask()
    assert service.requests(client.api_key) == 2


@pytest.mark.parametrize(
    ("limits", "asked"),
    [
        ({"requests_per_minute": 60, "request_burst": 1}, {}),
        ({"tokens_per_minute": 26 * 60, "token_burst": 26}, {"max_tokens": 26 - PROMPT_TOKENS}),
    ],
)
def test_the_client_s_own_retry_waits_as_told_and_succeeds(
    service: Operated, limits: dict[str, int], asked: dict[str, int]
) -> None:
    plain = service.customer(**limits)
    retrying = service.client(plain.api_key, max_retries=2)
    plain.chat.completions.create(**chat(**asked))
    wait_s = wait_told(refused(lambda: plain.chat.completions.create(**chat(**asked))))
    before, at = service.arrived({**ROUTE, "status": "429"}), time.monotonic()
    answer = retrying.chat.completions.with_raw_response.create(**chat(**asked))
    assert answer.retries_taken == 1
    assert wait_s - 0.1 <= time.monotonic() - at < wait_s + 2 * TOLERANCE_S
    assert service.arrived({**ROUTE, "status": "429"}) == before + 1


def test_the_client_s_own_retry_finds_a_slot(service: Operated) -> None:
    plain = service.customer(concurrent_requests=1)
    stream = plain.chat.completions.create(**chat(model="endless"), stream=True)
    next(stream)
    error = refused(lambda: plain.chat.completions.create(**chat()))
    assert isinstance(error, openai.RateLimitError)
    assert told(error) == (429, "concurrency-exceeded")
    assert error.response.headers["x-should-retry"] == "true"
    assert wait_told(error) == 1.0
    leaving = threading.Timer(0.3, stream.close)
    leaving.start()
    answer = service.client(plain.api_key, 2).chat.completions.with_raw_response.create(**chat())
    assert answer.retries_taken == 1
    leaving.join()
    assert service.requests(plain.api_key) == 2


@pytest.mark.parametrize(
    ("limits", "kind"),
    [
        ({"tokens_per_minute": PROMPT_TOKENS}, "token-rate-exceeded"),
        ({"tokens_per_minute": 0}, "token-rate-exceeded"),
        ({"requests_per_minute": 0}, "request-rate-exceeded"),
        ({"concurrent_requests": 0}, "concurrency-exceeded"),
        ({"monthly_budget_usd": "0.00001"}, "budget-exhausted"),
    ],
)
def test_what_waiting_cannot_help_is_asked_once(service: Operated, limits: dict[str, Any], kind: str) -> None:
    client = service.client(service.customer(**limits).api_key, max_retries=2)
    status = 402 if kind == "budget-exhausted" else 429
    before = service.arrived({**ROUTE, "status": str(status)})
    error = refused(lambda: client.chat.completions.create(**chat(max_tokens=5)))
    assert told(error) == (status, kind)
    assert error.response.headers["x-should-retry"] == "false"
    assert "retry-after" not in error.response.headers
    assert "retry-after-ms" not in error.response.headers
    assert service.arrived({**ROUTE, "status": str(status)}) == before + 1
    assert service.usage(client.api_key, "status") == []
    if status == 402:
        assert type(error) is openai.APIStatusError
        assert error.type == "insufficient_quota"
        assert error.code == "budget_exhausted"


def test_headers_tell_how_one_stands_on_successes_and_refusals(service: Operated) -> None:
    client = service.customer(tokens_per_minute=600, requests_per_minute=60)
    whole = client.chat.completions.with_raw_response.create(**chat(max_tokens=100))
    limit, remaining, reset = limits_told(whole.headers, "tokens")
    assert (limit, remaining) == (600, 600 - PROMPT_TOKENS - 100)
    assert reset == "12.1s"
    assert limits_told(whole.headers, "requests") == (60, 59, "1s")

    with client.chat.completions.with_streaming_response.create(**chat(max_tokens=100), stream=True) as stream:
        limit, remaining, _ = limits_told(stream.headers, "tokens")
        assert limit == 600
        # What the first did not use is there again.
        at_least = 600 - (PROMPT_TOKENS + BRIEF_TOKENS) - (PROMPT_TOKENS + 100)
        assert at_least <= remaining <= at_least + 10
        assert limits_told(stream.headers, "requests")[1] == 58
        stream.read()

    error = refused(lambda: client.chat.completions.create(**chat(max_tokens=600)))
    limit, remaining, reset = limits_told(error.response.headers, "tokens")
    assert limit == 600
    assert 600 - 2 * (PROMPT_TOKENS + BRIEF_TOKENS) <= remaining <= 600
    assert reset.endswith("s")
    assert limits_told(error.response.headers, "requests")[0] == 60


def test_what_is_refused_costs_nothing(service: Operated) -> None:
    """Not by a quota, not by the gateway, not by the replica: tokens and requests stay as they were. What only the
    replica refused was let in and has a record, of nothing.
    """
    client = service.customer(tokens_per_minute=500, requests_per_minute=60, concurrent_requests=1)
    unusable = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "string", "pattern": "("}}}
    for _ in range(3):
        assert refused(lambda: client.chat.completions.create(**chat(max_tokens=600))).status_code == 429
        assert refused(lambda: client.chat.completions.create(**chat(model="nothing"))).status_code == 404
        assert refused(lambda: client.chat.completions.create(**chat(temperature=9))).status_code == 400
        by_the_replica = refused(lambda: client.chat.completions.create(**chat(response_format=unusable)))
        assert by_the_replica.status_code == 400
        assert isinstance(by_the_replica, openai.BadRequestError)
        # It was let in before the replica refused it, and says so.
        assert limits_told(by_the_replica.response.headers, "requests")[0] == 60
    answer = client.chat.completions.with_raw_response.create(**chat(max_tokens=50))
    assert limits_told(answer.headers, "requests") == (60, 59, "1s")
    assert limits_told(answer.headers, "tokens")[:2] == (500, 500 - PROMPT_TOKENS - 50)
    used = {row["status"]: row for row in service.usage(client.api_key, "status")}
    assert set(used) == {"completed", "failed"}
    assert used["completed"]["requests"] == 1
    assert used["completed"]["cost_nanos"] == PROMPT_TOKENS * 1000 + BRIEF_TOKENS * 2000
    assert used["failed"]["requests"] == 3
    assert {used["failed"][name] for name in ("prompt_tokens", "output_tokens", "cost_nanos")} == {0}


def test_a_cap_refuses_more_and_cuts_what_does_not_say(service: Operated) -> None:
    client = service.customer(max_tokens=9)
    for field in ("max_tokens", "max_completion_tokens"):
        error = refused(lambda field=field: client.chat.completions.create(**chat(**{field: 10})))
        assert isinstance(error, openai.BadRequestError)
        assert error.param == field
        assert "more than the 9" in error.message
    asked: list[dict[str, Any]] = [{}, {"max_tokens": 9}, {"max_tokens": 4, "max_completion_tokens": 9}]
    for fields in asked:
        answer = client.chat.completions.create(**chat(model="endless", **fields))
        assert answer.choices[0].finish_reason == "length"
        assert answer.usage is not None
        assert answer.usage.completion_tokens == 9
    chunks = streamed(client, chat(model="endless", n=2))
    assert [chunk.usage.completion_tokens for chunk in chunks if chunk.usage is not None] == [18]
    assert finish_reasons(chunks) == {0: "length", 1: "length"}
    # Of completions the default is 16, which nobody asked for.
    text = client.completions.create(model="endless", prompt="Hi", temperature=0)
    assert text.usage is not None
    assert text.usage.completion_tokens == 9
    response = client.responses.create(model="endless", input="Hi")
    assert response.status == "incomplete"
    assert (
        refused(lambda: client.responses.create(model="endless", input="Hi", max_output_tokens=30)).status_code == 400
    )


def streamed(client: openai.OpenAI, asked: dict[str, Any]) -> list[ChatCompletionChunk]:
    return list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))


def finish_reasons(chunks: list[ChatCompletionChunk]) -> dict[int, str]:
    choices = [choice for chunk in chunks for choice in chunk.choices]
    return {choice.index: choice.finish_reason for choice in choices if choice.finish_reason is not None}


def test_a_stream_is_extended_while_the_quota_lasts_and_then_stopped(service: Operated) -> None:
    """It holds 256 tokens at first. What it is told, what is billed and what is taken is one number."""
    burst, per_minute = 1000, 600
    client = service.customer(tokens_per_minute=per_minute, token_burst=burst)
    began = time.monotonic()
    chunks = streamed(client, chat(model="endless"))
    lasted_s = time.monotonic() - began
    assert finish_reasons(chunks) == {0: "length"}
    (usage,) = [chunk.usage for chunk in chunks if chunk.usage is not None]
    assert not chunks[-1].choices
    came = burst + per_minute / 60 * lasted_s
    # A stop is decided some tokens ahead, and a few more may come until the engine has stopped.
    assert burst - 40 <= usage.total_tokens <= came + 24
    words = sum(choice.delta.content is not None for chunk in chunks for choice in chunk.choices)
    assert words <= usage.completion_tokens
    (row,) = service.usage(client.api_key, "status")
    assert row["status"] == "stopped"
    assert row["requests"] == 1
    assert (row["prompt_tokens"], row["output_tokens"]) == (PROMPT_TOKENS, usage.completion_tokens)
    error = refused(lambda: client.chat.completions.create(**chat(max_tokens=200)))
    assert limits_told(error.response.headers, "tokens")[1] <= max(came - usage.total_tokens, 0) + 10

    # Without having asked for its usage it gets none, and ends alike.
    other = service.customer(tokens_per_minute=per_minute, token_burst=burst)
    plain = list(other.chat.completions.create(**chat(model="endless", n=2), stream=True))
    assert finish_reasons(plain) == {0: "length", 1: "length"}
    assert all(chunk.usage is None for chunk in plain)
    through = list(service.customer(tokens_per_minute=600).responses.create(model="endless", input="Hi", stream=True))
    assert through[-1].type == "response.incomplete"


def test_a_short_stream_ends_by_itself_however_tight_its_quota(service: Operated) -> None:
    """A cap that is held whole is used whole."""
    client = service.customer(tokens_per_minute=PROMPT_TOKENS + 16, max_tokens=16)
    chunks = streamed(client, chat(model="endless"))
    assert [chunk.usage.completion_tokens for chunk in chunks if chunk.usage is not None] == [16]
    assert [row["status"] for row in service.usage(client.api_key, "status")] == ["completed"]
    client = service.customer(tokens_per_minute=2 + 16)
    texts = list(client.completions.create(model="endless", prompt="Hi", temperature=0, stream=True))
    assert texts[-1].choices[0].finish_reason == "length"
    assert [row["status"] for row in service.usage(client.api_key, "status")] == ["completed"]


def test_a_whole_answer_is_cut_at_what_is_there(service: Operated) -> None:
    client = service.customer(tokens_per_minute=600)
    answer = client.chat.completions.create(**chat(model="endless"))
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.total_tokens == 600


@pytest.mark.parametrize(
    ("asked", "needed"),
    [
        ({"n": 3, "max_tokens": 50}, PROMPT_TOKENS + 150),
        ({"max_tokens": 10, "max_completion_tokens": 50}, PROMPT_TOKENS + 50),
        ({"max_tokens": 50, "max_completion_tokens": 10}, PROMPT_TOKENS + 50),
    ],
)
def test_all_that_may_come_is_held(service: Operated, asked: dict[str, int], needed: int) -> None:
    client = service.customer(tokens_per_minute=needed - 1)
    error = refused(lambda: client.chat.completions.create(**chat(**asked)))
    assert told(error) == (429, "token-rate-exceeded")
    assert f"may take {needed} tokens" in error.message
    client = service.customer(tokens_per_minute=needed)
    answer = client.chat.completions.with_raw_response.create(**chat(**asked))
    assert limits_told(answer.headers, "tokens")[:2] == (needed, 0)
    assert answer.parse().usage is not None


def test_all_quotas_hold_at_once_and_the_tightest_refuses(service: Operated) -> None:
    tenant = service.tenant()
    one, other = service.key(tenant), service.key(tenant)
    whole = service.quota(tenant, requests_per_minute=5)
    of_alias = service.quota(tenant, alias="brief", tokens_per_minute=100)
    of_key = service.quota(tenant, key=one["id"], requests_per_minute=2)
    limited, free = service.client(one["secret"]), service.client(other["secret"])

    error = refused(lambda: limited.chat.completions.create(**chat(max_tokens=100)))
    assert told(error) == (429, "token-rate-exceeded")
    assert of_alias in error.message
    for remaining in (1, 0):
        answer = limited.chat.completions.with_raw_response.create(**chat(model="endless", max_tokens=5))
        assert limits_told(answer.headers, "requests")[:2] == (2, remaining)
    error = refused(lambda: limited.chat.completions.create(**chat(max_tokens=5)))
    assert told(error) == (429, "request-rate-exceeded")
    assert repr(of_key) in error.message
    for remaining in (2, 1, 0):
        answer = free.chat.completions.with_raw_response.create(**chat(model="endless", max_tokens=5))
        assert limits_told(answer.headers, "requests")[:2] == (5, remaining)
    error = refused(lambda: free.chat.completions.create(**chat(max_tokens=5)))
    assert told(error) == (429, "request-rate-exceeded")
    assert repr(whole) in error.message
    assert service.requests(one["secret"]) == 5


def test_what_was_not_used_comes_back_at_the_end_and_when_the_client_leaves(service: Operated) -> None:
    client = service.customer(tokens_per_minute=60_000, concurrent_requests=1)
    stream = client.chat.completions.create(**chat(model="endless", max_tokens=50_000), stream=True)
    for _ in range(5):
        next(stream)
    stream.close()

    def free() -> bool:
        return bool(service.usage(client.api_key, "status"))

    until("the request of the client that left is settled", free, limit_s=10)
    (row,) = service.usage(client.api_key, "status")
    assert row["status"] == "client_left"
    assert row["prompt_tokens"] == PROMPT_TOKENS
    assert 4 <= row["output_tokens"] < 50_000
    answer = client.chat.completions.with_raw_response.create(**chat(max_tokens=10))
    _, remaining, _ = limits_told(answer.headers, "tokens")
    assert remaining >= 60_000 - PROMPT_TOKENS - row["output_tokens"] - PROMPT_TOKENS - 10
