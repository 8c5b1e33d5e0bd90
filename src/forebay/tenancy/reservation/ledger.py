"""The books of all accounts and leases: a pure state machine; each call is one step at a given time."""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

from forebay.tenancy.reservation.bucket import Bucket
from forebay.tenancy.reservation.counters import MAX_NANOS, Counters
from forebay.tenancy.reservation.cover import affordable, output_covered, shortfalls, standing, worst
from forebay.tenancy.reservation.lease import Ask, Granted, Refused, Standing, Used
from forebay.tenancy.reservation.month import Month

MAX_TAKES = 8
"""Of a lease that are kept apart. With one more the first two count as one, made when the first was: should a lease
that was extended so often leave even those unused, it may be refunded less of them.
"""
MAX_EXPIRED_AT_ONCE = 1000
"""Leases that one call settles because they have expired; the next call goes on."""
UNUSED = Used(tokens=0, nanos=0, counts=False)
NOTHING_SEEN = Used(tokens=0, nanos=0)


@dataclass(slots=True)
class Hold:
    """What a lease holds of one account: the numbers of its takes, None where the account did not limit that."""

    account: str
    request_take: int | None
    token_takes: list[int] | None


@dataclass(slots=True)
class Lease:
    """`takes`: tokens of each take, in order. `nanos` is held of the budgets of `month`."""

    holds: list[Hold]
    takes: list[int]
    month: str
    nanos: int
    nanos_per_output_token: int
    expires_us: int
    seen: Used


class Ledger:
    """Leases live for `lease_ttl_us` after their last sign of life. Every call first settles what has expired."""

    def __init__(self, lease_ttl_us: int) -> None:
        self._lease_ttl_us = lease_ttl_us
        self._accounts: dict[str, Counters] = {}
        self._leases: dict[str, Lease] = {}
        self._expiries: list[tuple[int, str]] = []

    def acquire(self, ask: Ask, now_us: int, month: Month) -> Granted | Refused:
        """An id that is still held is given up first, as if it had not run, so that an acquisition whose answer was
        lost can be repeated.
        """
        self.sweep(now_us)
        self._settle(ask.lease_id, UNUSED, now_us)
        # An account that is new here enters the books only when something is granted.
        found = {account.name: self._accounts.get(account.name) or Counters() for account in ask.accounts}
        for account in ask.accounts:
            found[account.name].adopt(account.limits, now_us)
        short = worst(
            shortfall
            for name, counters in found.items()
            for shortfall in shortfalls(name, counters, ask, now_us, month)
        )
        if short is not None:
            return short.refused(*_standings(found, now_us))
        granted = min(
            (output_covered(counters, ask, now_us, month.name) for counters in found.values()),
            default=ask.output_tokens_max,
        )
        self._accounts.update(found)
        self._take(ask, found, granted, now_us, month.name)
        requests, tokens = _standings(found, now_us)
        return Granted(output_tokens=granted, requests=requests, tokens=tokens)

    def _take(self, ask: Ask, found: Mapping[str, Counters], granted: int, now_us: int, month: str) -> None:
        taken = ask.prompt_tokens + granted
        nanos = min(MAX_NANOS, ask.prompt_nanos + granted * ask.nanos_per_output_token)
        holds: list[Hold] = []
        for name, counters in found.items():
            requests, tokens = counters.request_bucket, counters.token_bucket
            counters.outstanding += 1
            counters.hold_nanos(month, nanos)
            holds.append(
                Hold(
                    name,
                    None if requests is None else requests.take(1, now_us),
                    None if tokens is None else [tokens.take(taken, now_us)],
                )
            )
        lease = Lease(holds, [taken], month, nanos, ask.nanos_per_output_token, 0, NOTHING_SEEN)
        self._leases[ask.lease_id] = lease
        self._live_on(ask.lease_id, lease, now_us)

    def extend(self, lease_id: str, output_tokens_min: int, output_tokens_max: int, now_us: int) -> int:
        self.sweep(now_us)
        lease = self._leases.get(lease_id)
        if lease is None:
            return 0
        granted = min(
            (self._more(hold, lease, output_tokens_max, now_us) for hold in lease.holds), default=output_tokens_max
        )
        if granted < max(1, output_tokens_min):
            return 0
        if len(lease.takes) == MAX_TAKES:
            self._join_first(lease, now_us)
        nanos = min(granted * lease.nanos_per_output_token, MAX_NANOS - lease.nanos)
        for hold in lease.holds:
            counters = self._accounts[hold.account]
            counters.hold_nanos(lease.month, nanos)
            if hold.token_takes is not None and counters.tokens is not None:
                hold.token_takes.append(counters.tokens.take(granted, now_us))
        lease.nanos += nanos
        lease.takes.append(granted)
        return granted

    def _join_first(self, lease: Lease, now_us: int) -> None:
        for hold in lease.holds:
            counters = self._accounts[hold.account]
            if hold.token_takes is not None and counters.tokens is not None:
                counters.tokens.give_back(hold.token_takes.pop(1), 0, now_us)
        lease.takes[0] += lease.takes.pop(1)

    def _more(self, hold: Hold, lease: Lease, most: int, now_us: int) -> int:
        """Output tokens that an account covers beyond those that the lease has."""
        counters = self._accounts[hold.account]
        if hold.token_takes is not None and (bucket := counters.token_bucket) is not None:
            most = min(most, bucket.available(now_us) if bucket.rate else 0)
        if (left := counters.budget_left(lease.month)) is not None:
            most = min(most, affordable(left, lease.nanos_per_output_token, most))
        return most

    def settle(self, lease_id: str, used: Used, now_us: int) -> bool:
        self.sweep(now_us)
        return self._settle(lease_id, used, now_us)

    def _settle(self, lease_id: str, used: Used, now_us: int) -> bool:
        lease = self._leases.pop(lease_id, None)
        if lease is None:
            return False
        for hold in lease.holds:
            counters = self._accounts[hold.account]
            counters.outstanding -= 1
            counters.spend(lease.month, lease.nanos, used.nanos if used.counts else 0)
            if hold.request_take is not None and counters.requests is not None:
                counters.requests.give_back(hold.request_take, 0 if used.counts else 1, now_us)
            if hold.token_takes is not None and counters.tokens is not None:
                tokens = used.tokens if used.counts else 0
                _settle_tokens(counters.tokens, hold.token_takes, lease.takes, tokens, now_us)
        return True

    def renew(self, seen: Mapping[str, Used], now_us: int) -> None:
        self.sweep(now_us)
        for lease_id, used in seen.items():
            lease = self._leases.get(lease_id)
            if lease is not None:
                lease.seen = used
                self._live_on(lease_id, lease, now_us)

    def _live_on(self, lease_id: str, lease: Lease, now_us: int) -> None:
        lease.expires_us = now_us + self._lease_ttl_us
        heapq.heappush(self._expiries, (lease.expires_us, lease_id))

    def sweep(self, now_us: int) -> None:
        """Settle leases that have had no sign of life, first those that expired first."""
        settled = 0
        while self._expiries and self._expiries[0][0] <= now_us and settled < MAX_EXPIRED_AT_ONCE:
            expires_us, lease_id = heapq.heappop(self._expiries)
            lease = self._leases.get(lease_id)
            if lease is not None and lease.expires_us == expires_us:
                self._settle(lease_id, lease.seen, now_us)
                settled += 1

    def forget_idle(self, now_us: int) -> None:
        """Drop the accounts of which nothing needs to be known: an account that comes back is a fresh one then too."""
        for name in [name for name, counters in self._accounts.items() if counters.is_idle(now_us)]:
            del self._accounts[name]

    def outstanding(self, account: str) -> int:
        counters = self._accounts.get(account)
        return counters.outstanding if counters else 0

    def seed_spent(self, account: str, month: str, nanos: int) -> None:
        spending = self._accounts.setdefault(account, Counters()).spending(month)
        spending.spent = max(spending.spent, min(nanos, MAX_NANOS))

    def counters(self, account: str) -> Counters | None:
        """The books of an account, to be read."""
        return self._accounts.get(account)


def _settle_tokens(bucket: Bucket, numbers: list[int], takes: list[int], used: int, now_us: int) -> None:
    """What was taken last is unused first."""
    unused = sum(takes) - used
    for number, taken in zip(reversed(numbers), reversed(takes), strict=True):
        part = min(max(unused, 0), taken)
        bucket.give_back(number, part, now_us)
        unused -= part
    if unused < 0:
        bucket.draw(-unused, now_us)


def _standings(found: Mapping[str, Counters], now_us: int) -> tuple[Standing | None, Standing | None]:
    requests = [bucket for counters in found.values() if (bucket := counters.request_bucket) is not None]
    tokens = [bucket for counters in found.values() if (bucket := counters.token_bucket) is not None]
    return standing(requests, now_us), standing(tokens, now_us)
