"""What a replica's error means to the caller."""

import json

import pytest

from forebay.core import errors
from forebay.fleet.upstream_errors import error_of


def told(status: int, body: object = None, retry_after: str | None = None) -> errors.ForebayError:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return error_of("big", "their-model", status, retry_after, raw)


def test_the_client_s_own_mistakes_are_relayed() -> None:
    error = told(400, {"error": {"message": "temperature: too hot", "param": "temperature", "code": None}})
    assert type(error) is errors.InvalidRequest
    assert (error.detail, error.param) == ("temperature: too hot", "temperature")


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "too long", "param": "messages", "code": "context_length_exceeded"}},
        {"error": {"message": "This model's maximum context length is 4096 tokens. However, …", "code": 400}},
        {"object": "error", "message": "The prompt is longer than the maximum model length of 4096.", "code": 400},
    ],
)
def test_over_long_prompts_are_known_by_code_or_by_words(body: object) -> None:
    assert type(told(400, body)) is errors.ContextTooLong


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"detail": [{"loc": ["body", "n"], "msg": "bad"}]}, '"loc"'),
        ({"error": "no"}, "no"),
        ({"error": {"message": 7}}, "without saying why"),
        ([], "without saying why"),
        (b"<html>", "without saying why"),
        (b"\xff", "without saying why"),
        ({"error": {"message": "x" * 100_000}}, "xxx"),
    ],
)
def test_any_body_makes_a_400_that_can_be_read(body: object, words: str) -> None:
    for status in (400, 422):
        error = told(status, body)
        assert type(error) is errors.InvalidRequest
        assert words in error.detail
        assert len(error.detail) < 1000


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_ours_to_mend_and_is_not_told(status: int) -> None:
    error = told(status, {"error": {"message": "Incorrect API key provided: sk-secret"}})
    assert type(error) is errors.UpstreamFailed
    assert "sk-secret" not in error.detail
    assert "pools.big.api_key" in error.detail


def test_an_unknown_model_there_is_ours_to_mend() -> None:
    error = told(404, {"error": {"message": "no such model"}})
    assert type(error) is errors.UpstreamFailed
    assert "pools.big.upstream_model" in error.detail
    assert "their-model" in error.detail


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7), (None, 1), ("-5", 1), ("nan", 1), ("1e9", 600), ("Wed, 21 Oct 2015 07:28:00 GMT", 1)],
)
@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_says_when_to_come_back(status: int, header: str | None, seconds: float) -> None:
    error = told(status, retry_after=header)
    assert type(error) is errors.CapacityUnavailable
    assert error.retry_after_s == seconds


@pytest.mark.parametrize("status", [302, 405, 418, 500, 502, 504])
def test_all_else_is_the_replica_s_failure(status: int) -> None:
    error = told(status, b"secret stack trace")
    assert type(error) is errors.UpstreamFailed
    assert "secret" not in error.detail
    assert str(status) in error.detail
