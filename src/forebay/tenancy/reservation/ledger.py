"""The books of all accounts and leases: a pure state machine; each call is one step at a given time."""

import heapq
from collections.abc import Iterator, Mapping

from forebay.tenancy.reservation.counters import MAX_NANOS, Counters
from forebay.tenancy.reservation.cover import affordable, output_covered, shortfalls, standing, worst
from forebay.tenancy.reservation.held import Hold, Lease, counted, settle_tokens
from forebay.tenancy.reservation.lease import (
    LAPSED_TTLS,
    MAX_LAPSED,
    NOTHING_YET,
    UNUSED,
    Ask,
    Granted,
    Refused,
    Standing,
    Used,
)
from forebay.tenancy.reservation.limits import Account
from forebay.tenancy.reservation.month import Month

MAX_TAKES = 8
"""Of a lease that are kept apart. With one more the first two count as one, made when the first was: should a lease
that was extended so often leave even those unused, it may be refunded less of them.
"""
MAX_EXPIRED_AT_ONCE = 1000
"""Leases that one call ends because they have expired (or forgets, of those that did before); the next goes on."""


class Ledger:
    """Leases live for `lease_ttl_us` after their last sign of life; for good where that is None. Every call first ends
    what has expired.
    """

    def __init__(self, lease_ttl_us: int | None) -> None:
        self._lease_ttl_us = lease_ttl_us
        self._accounts: dict[str, Counters] = {}
        self._leases: dict[str, Lease] = {}
        self._expiries: list[tuple[int, str]] = []
        self._lapsed: dict[str, Lease] = {}
        """Those that have expired. Until `expires_us` they are remembered."""
        self._forgettings: list[tuple[int, str]] = []

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
        lease = Lease(holds, [taken], month, nanos, ask.nanos_per_output_token)
        self._leases[ask.lease_id] = lease
        self._live_on(ask.lease_id, lease, now_us)

    def extend(
        self,
        lease_id: str,
        accounts: tuple[Account, ...],
        output_tokens_min: int,
        output_tokens_max: int,
        now_us: int,
    ) -> int:
        self.sweep(now_us)
        lease = self._leases.get(lease_id) or self._take_up(lease_id, NOTHING_YET, now_us)
        if lease is None:
            return 0
        limits = {account.name: account.limits for account in accounts}
        granted = output_tokens_max
        for hold in lease.holds:
            if hold.account in limits:
                self._accounts[hold.account].adopt(limits[hold.account], now_us)
                granted = min(granted, self._more(hold, lease, granted, now_us))
        if granted < max(1, output_tokens_min):
            return 0
        self._take_more(lease, granted, now_us)
        return granted

    def _take_more(self, lease: Lease, granted: int, now_us: int) -> None:
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
        if lease is not None:
            self._free_slots(lease)
        else:
            lease = self._lapsed.pop(lease_id, None)
        if lease is None:
            return False
        self._charge(lease, counted(used), now_us, requests_unused=0 if used.counts else 1)
        return True

    def _free_slots(self, lease: Lease) -> None:
        for hold in lease.holds:
            self._accounts[hold.account].outstanding -= 1

    def _charge(self, lease: Lease, used: Used, now_us: int, *, requests_unused: int) -> None:
        """What it has used, beyond what was charged before; the rest of what it holds is given back."""
        for hold in lease.holds:
            counters = self._accounts[hold.account]
            counters.spend(lease.month, lease.nanos, max(0, used.nanos - lease.charged.nanos))
            if hold.request_take is not None and counters.requests is not None:
                counters.requests.give_back(hold.request_take, requests_unused, now_us)
            if hold.token_takes is not None and counters.tokens is not None:
                tokens = max(0, used.tokens - lease.charged.tokens)
                settle_tokens(counters.tokens, hold.token_takes, lease.takes, tokens, now_us)

    def renew(self, seen: Mapping[str, Used], now_us: int) -> None:
        self.sweep(now_us)
        for lease_id, used in seen.items():
            so_far = counted(used)
            lease = self._leases.get(lease_id) or self._take_up(lease_id, so_far, now_us)
            if lease is not None:
                lease.seen = so_far
                self._live_on(lease_id, lease, now_us)

    def _live_on(self, lease_id: str, lease: Lease, now_us: int) -> None:
        if self._lease_ttl_us is not None:
            lease.expires_us = now_us + self._lease_ttl_us
            heapq.heappush(self._expiries, (lease.expires_us, lease_id))

    def sweep(self, now_us: int) -> None:
        """End leases that have had no sign of life, first those that expired first; forget those that did long ago."""
        if self._lease_ttl_us is None:
            return
        for lease_id in _due(self._expiries, self._leases, now_us):
            self._lapse(lease_id, now_us, now_us + LAPSED_TTLS * self._lease_ttl_us)
        for lease_id in _due(self._forgettings, self._lapsed, now_us):
            del self._lapsed[lease_id]

    def _lapse(self, lease_id: str, now_us: int, remembered_until_us: int) -> None:
        lease = self._leases.pop(lease_id)
        self._free_slots(lease)
        self._charge(lease, lease.seen, now_us, requests_unused=0)
        lease.lapse()
        lease.expires_us = remembered_until_us
        self._lapsed[lease_id] = lease
        heapq.heappush(self._forgettings, (remembered_until_us, lease_id))
        while len(self._lapsed) > MAX_LAPSED:
            until_us, oldest = heapq.heappop(self._forgettings)
            if oldest in self._lapsed and self._lapsed[oldest].expires_us == until_us:
                del self._lapsed[oldest]

    def _take_up(self, lease_id: str, seen: Used, now_us: int) -> Lease | None:
        """A lease that has expired holds again what it held, or has used if that is more, whether it is there or not.
        None where there is no such lease.
        """
        lease = self._lapsed.pop(lease_id, None)
        if lease is None:
            return None
        tokens = lease.hold_again(seen)
        for hold in lease.holds:
            counters = self._accounts[hold.account]
            counters.outstanding += 1
            counters.hold_nanos(lease.month, lease.nanos)
            if hold.token_takes is not None and counters.tokens is not None:
                hold.token_takes = [counters.tokens.take(tokens, now_us)]
        self._leases[lease_id] = lease
        self._live_on(lease_id, lease, now_us)
        return lease

    def forget_idle(self, now_us: int) -> None:
        """Drop the accounts of which nothing needs to be known: an account that comes back is a fresh one then too."""
        kept = {hold.account for lease in self._lapsed.values() for hold in lease.holds}
        for name in [name for name, counters in self._accounts.items() if counters.is_idle(now_us)]:
            if name not in kept:
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


def _due(queue: list[tuple[int, str]], leases: Mapping[str, Lease], now_us: int) -> Iterator[str]:
    """Those of the leases that are due by the queue (a heap of times and ids, some out of date), the earliest first and
    not too many at once. They leave the queue.
    """
    found = 0
    while queue and queue[0][0] <= now_us and found < MAX_EXPIRED_AT_ONCE:
        due_us, lease_id = heapq.heappop(queue)
        if lease_id in leases and leases[lease_id].expires_us == due_us:
            found += 1
            yield lease_id


def _standings(found: Mapping[str, Counters], now_us: int) -> tuple[Standing | None, Standing | None]:
    requests = [bucket for counters in found.values() if (bucket := counters.request_bucket) is not None]
    tokens = [bucket for counters in found.values() if (bucket := counters.token_bucket) is not None]
    return standing(requests, now_us), standing(tokens, now_us)
