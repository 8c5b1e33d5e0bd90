"""What a caller is told of its quotas, with an answer and with a refusal."""

from typing import Any

import pytest

from forebay.api.errors import headers
from forebay.core.errors import (
    BudgetExhausted,
    ConcurrencyExceeded,
    ForebayError,
    RequestRateExceeded,
    TokenRateExceeded,
)
from forebay.serving.rate_limit_headers import duration, rate_limit_headers
from forebay.serving.refusals import refusal
from forebay.tenancy.reservation.lease import Refused, Standing


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (0, "0s"),
        (0.0170001, "18ms"),
        (0.9991, "1s"),
        (1.5, "1.5s"),
        (59.999, "59.999s"),
        (60, "1m0s"),
        (360, "6m0s"),
        (3605, "1h0m5s"),
    ],
)
def test_durations_are_written_as_openai_does_and_never_too_short(seconds: float, written: str) -> None:
    assert duration(seconds) == written


def test_only_what_is_limited_is_told() -> None:
    tokens = Standing(limit=100, remaining=7, reset_s=55.8)
    assert rate_limit_headers(None, tokens) == {
        "x-ratelimit-limit-tokens": "100",
        "x-ratelimit-remaining-tokens": "7",
        "x-ratelimit-reset-tokens": "55.8s",
    }
    assert rate_limit_headers(None, None) == {}


def refused(kind: Any, *, never: bool = False, retry_after_s: float | None = 2.0) -> ForebayError:
    return refusal(
        Refused(
            kind=kind,
            account="acme:model:chat",
            limit=100,
            available=30,
            asked=50,
            retry_after_s=retry_after_s,
            never=never,
            requests=Standing(limit=9, remaining=3, reset_s=1.0),
            tokens=None,
        )
    )


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("tokens", TokenRateExceeded),
        ("requests", RequestRateExceeded),
        ("concurrency", ConcurrencyExceeded),
        ("budget", BudgetExhausted),
    ],
)
def test_each_limit_has_its_error_which_names_the_quota_and_how_the_caller_stands(
    kind: str, error: type[ForebayError]
) -> None:
    told = refused(kind)
    assert type(told) is error
    assert "acme:model:chat" in told.detail
    assert told.headers["x-ratelimit-remaining-requests"] == "3"


def test_a_refusal_that_time_mends_says_when() -> None:
    told = headers(refused("tokens", retry_after_s=2.0004))
    assert (told["Retry-After"], told["retry-after-ms"], told["x-should-retry"]) == ("3", "2001", "true")


def test_a_slot_is_worth_a_second_try_soon() -> None:
    told = headers(refused("concurrency", retry_after_s=None))
    assert (told["x-should-retry"], told["Retry-After"]) == ("true", "1")


@pytest.mark.parametrize("kind", ["tokens", "requests", "concurrency"])
def test_what_can_never_be_let_in_is_not_to_be_tried_again(kind: str) -> None:
    told = headers(refused(kind, never=True))
    assert told["x-should-retry"] == "false"
    assert "Retry-After" not in told


def test_a_budget_does_not_come_back_by_trying() -> None:
    assert headers(refused("budget"))["x-should-retry"] == "false"


def test_small_amounts_are_told_without_an_exponent() -> None:
    assert "0.00000005 USD; of the 0.0000001 USD" in refused("budget").detail
