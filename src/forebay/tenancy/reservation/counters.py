"""What is counted of one account."""

from dataclasses import dataclass, field

from forebay.tenancy.reservation.bucket import MAX_TOKENS, Bucket
from forebay.tenancy.reservation.limits import Limits

MAX_NANOS = 9_000_000_000_000_000
"""9 million dollars: what is exact below 2^53. An account with a larger budget gets this one."""
MONTHS_KEPT = 3


@dataclass(slots=True)
class Spending:
    """Of one month, in nano-dollars: what settled requests cost, and what those that run may cost at most."""

    spent: int = 0
    held: int = 0


@dataclass(slots=True)
class Counters:
    """`outstanding` leases, and the limits as they were last given: the buckets' own, `concurrent`, `budget` (None: not
    limited). A bucket stays when its limit goes, so that it is no fresh one when the limit comes back.
    """

    outstanding: int = 0
    concurrent: int | None = None
    budget: int | None = None
    requests: Bucket | None = None
    tokens: Bucket | None = None
    requests_limited: bool = False
    tokens_limited: bool = False
    months: dict[str, Spending] = field(default_factory=dict[str, Spending])

    def adopt(self, limits: Limits, now_us: int) -> None:
        """Go on under these limits."""
        self.concurrent = limits.concurrent_requests
        self.budget = None if limits.budget_nanos is None else min(limits.budget_nanos, MAX_NANOS)
        self.requests_limited = limits.requests_per_minute is not None
        self.tokens_limited = limits.tokens_per_minute is not None
        self.requests = _adopted(self.requests, limits.requests_per_minute, limits.request_burst, now_us)
        self.tokens = _adopted(self.tokens, limits.tokens_per_minute, limits.token_burst, now_us)

    @property
    def request_bucket(self) -> Bucket | None:
        """The bucket of requests, where they are limited now."""
        return self.requests if self.requests_limited else None

    @property
    def token_bucket(self) -> Bucket | None:
        """The bucket of tokens, where they are limited now."""
        return self.tokens if self.tokens_limited else None

    def spending(self, month: str) -> Spending:
        """Of that month, to be changed. Of all months the newest few are kept."""
        if month not in self.months:
            self.months[month] = Spending()
            for old in sorted(self.months)[:-MONTHS_KEPT]:
                if old != month:
                    del self.months[old]
        return self.months[month]

    def budget_left(self, month: str) -> int | None:
        """Nano-dollars, None where there is no budget; negative where it is overspent."""
        if self.budget is None:
            return None
        spending = self.months.get(month)
        return self.budget - (spending.spent + spending.held if spending else 0)

    def hold_nanos(self, month: str, nanos: int) -> None:
        spending = self.spending(month)
        spending.held = min(MAX_NANOS, spending.held + nanos)

    def spend(self, month: str, held: int, used: int) -> None:
        """What was held is not any more; what was used in its place is spent."""
        spending = self.spending(month)
        spending.held = max(0, spending.held - held)
        spending.spent = min(MAX_NANOS, spending.spent + min(used, MAX_NANOS))

    def is_idle(self, now_us: int) -> bool:
        """Nothing would change if it were forgotten."""
        buckets = (self.requests, self.tokens)
        full = all(bucket is None or bucket.drawn_at(now_us) == 0 for bucket in buckets)
        return not self.outstanding and full and not any(month.spent for month in self.months.values())


def _adopted(bucket: Bucket | None, rate: int | None, burst: int | None, now_us: int) -> Bucket | None:
    if rate is None:
        return bucket
    rate = min(rate, MAX_TOKENS)
    burst = rate if burst is None else min(burst, MAX_TOKENS)
    if bucket is None:
        return Bucket(rate, burst, now_us)
    bucket.set_limits(rate, burst, now_us)
    return bucket
