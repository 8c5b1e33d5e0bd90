"""What is kept of one lease."""

from dataclasses import dataclass

from forebay.tenancy.reservation.bucket import Bucket
from forebay.tenancy.reservation.counters import MAX_NANOS
from forebay.tenancy.reservation.lease import NOTHING_YET, Used


@dataclass(slots=True)
class Hold:
    """What a lease holds of one account: the numbers of its takes, None where the account did not limit that."""

    account: str
    request_take: int | None
    token_takes: list[int] | None


@dataclass(slots=True)
class Lease:
    """`takes`: tokens of each take, in order. `nanos` is held of the budgets of `month`.

    `charged` is what it was charged each time it expired: for good, and beyond what it holds. Once it has expired it
    holds nothing, and `covered` is what it held until then, and that with what had been charged before.
    """

    holds: list[Hold]
    takes: list[int]
    month: str
    nanos: int
    nanos_per_output_token: int
    expires_us: int = 0
    seen: Used = NOTHING_YET
    charged: Used = NOTHING_YET
    covered: Used = NOTHING_YET

    def lapse(self) -> None:
        """It has been charged what was seen last, and holds nothing any more."""
        charged, seen = self.charged, self.seen
        nanos = min(MAX_NANOS, charged.nanos + self.nanos)
        self.covered = Used(tokens=charged.tokens + sum(self.takes), nanos=nanos)
        self.charged = Used(tokens=max(charged.tokens, seen.tokens), nanos=max(charged.nanos, seen.nanos))
        self.takes, self.nanos = [], 0
        for hold in self.holds:
            hold.request_take = None
            hold.token_takes = None if hold.token_takes is None else []

    def hold_again(self, seen: Used) -> int:
        """After it has lapsed: what it covered, or what was seen if that is more, beyond what was charged. The tokens,
        as one take, whose numbers are yet to be told.
        """
        tokens = max(0, max(self.covered.tokens, seen.tokens) - self.charged.tokens)
        self.takes = [tokens]
        self.nanos = max(0, max(self.covered.nanos, seen.nanos) - self.charged.nanos)
        return tokens


def counted(used: Used) -> Used:
    """As amounts alone, those that are kept exactly."""
    if not used.counts:
        return NOTHING_YET
    return used if used.nanos <= MAX_NANOS else Used(tokens=used.tokens, nanos=MAX_NANOS)


def settle_tokens(bucket: Bucket, numbers: list[int], takes: list[int], used: int, now_us: int) -> None:
    """What was taken last is unused first."""
    unused = sum(takes) - used
    for number, taken in zip(reversed(numbers), reversed(takes), strict=True):
        part = min(max(unused, 0), taken)
        bucket.give_back(number, part, now_us)
        unused -= part
    if unused < 0:
        bucket.draw(-unused, now_us)
