"""Whether an account covers a request: pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from forebay.tenancy.reservation.bucket import Bucket
from forebay.tenancy.reservation.counters import Counters
from forebay.tenancy.reservation.lease import Ask, LimitKind, Refused, Standing
from forebay.tenancy.reservation.month import US_PER_SECOND, Month

LONGEST_RESET_US = 31_536_000 * US_PER_SECOND
"""A year: what a standing tells of a bucket that takes longer to fill."""


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A limit of an account that does not cover a request. `wait_us` as in `Refused.retry_after_s`, in microseconds."""

    kind: LimitKind
    account: str
    limit: int
    available: int
    asked: int
    wait_us: int | None
    never: bool

    def refused(self, requests: Standing | None, tokens: Standing | None) -> Refused:
        return Refused(
            kind=self.kind,
            account=self.account,
            limit=self.limit,
            available=self.available,
            asked=self.asked,
            retry_after_s=None if self.wait_us is None else self.wait_us / US_PER_SECOND,
            never=self.never,
            requests=requests,
            tokens=tokens,
        )


def output_covered(counters: Counters, ask: Ask, now_us: int, month: str) -> int:
    """How many output tokens the account covers, at most `output_tokens_max`; it may be too few or negative."""
    covered = ask.output_tokens_max
    if (bucket := counters.token_bucket) is not None:
        covered = min(covered, bucket.available(now_us) - ask.prompt_tokens)
    if (left := counters.budget_left(month)) is not None:
        covered = min(covered, affordable(left - ask.prompt_nanos, ask.nanos_per_output_token, covered))
    return covered


def affordable(nanos: int, nanos_per_token: int, enough: int) -> int:
    """Tokens that so many nano-dollars pay for; `enough` where they cost nothing. Negative where nanos are."""
    if nanos < 0:
        return -1
    return nanos // nanos_per_token if nanos_per_token else enough


def shortfalls(name: str, counters: Counters, ask: Ask, now_us: int, month: Month) -> Iterator[Shortfall]:
    """Each limit of the account that does not cover the least that is asked for."""
    if (bucket := counters.request_bucket) is not None:
        yield from _of_bucket("requests", name, bucket, 1, now_us)
    if (bucket := counters.token_bucket) is not None:
        yield from _of_bucket("tokens", name, bucket, ask.prompt_tokens + ask.output_tokens_min, now_us)
    most = counters.concurrent
    if most is not None and counters.outstanding >= most:
        yield Shortfall("concurrency", name, most, 0, 1, None, most == 0)
    left = counters.budget_left(month.name)
    if left is not None and counters.budget is not None:
        asked = ask.prompt_nanos + ask.output_tokens_min * ask.nanos_per_output_token
        if asked > left:
            never = asked > counters.budget
            wait_us = None if never else month.left_us
            yield Shortfall("budget", name, counters.budget, max(0, left), asked, wait_us, never)


def _of_bucket(kind: LimitKind, name: str, bucket: Bucket, asked: int, now_us: int) -> Iterator[Shortfall]:
    available = bucket.available(now_us)
    if asked > available or bucket.rate == 0:
        wait_us = bucket.wait_us(asked, now_us)
        limit = bucket.burst if bucket.rate else 0
        yield Shortfall(kind, name, limit, max(0, min(available, limit)), asked, wait_us, wait_us is None)


def worst(found: Iterable[Shortfall]) -> Shortfall | None:
    """The one that waiting helps last: never, then the longest wait, then what has no known one."""
    return max(found, key=_badness, default=None)


def _badness(shortfall: Shortfall) -> tuple[bool, int]:
    return (shortfall.never, -1 if shortfall.wait_us is None else shortfall.wait_us)


def standing(buckets: Sequence[Bucket], now_us: int) -> Standing | None:
    """Of the bucket with the least left."""
    if not buckets:
        return None
    least = min(buckets, key=lambda bucket: bucket.available(now_us))
    full_us = least.full_us(now_us)
    reset_us = LONGEST_RESET_US if full_us is None else min(full_us, LONGEST_RESET_US)
    return Standing(limit=least.burst, remaining=max(0, least.available(now_us)), reset_s=reset_us / US_PER_SECOND)
