"""The ledger under any sequence of open, extend, renew, settle and expire, against a model that keeps every charge."""

import copy
from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, MultipleResults, RuleBasedStateMachine, consumes, invariant, multiple, rule

from forebay.tenancy.reservation.bucket import UNIT
from forebay.tenancy.reservation.lease import LAPSED_TTLS, NOTHING_YET, Ask, Granted, Refused, Used
from forebay.tenancy.reservation.ledger import MAX_TAKES, Ledger
from forebay.tenancy.reservation.limits import Account, Limits
from forebay.tenancy.reservation.month import Month, month_at

SECOND = 1_000_000
TTL_US = 15 * SECOND
START_US = 1_796_083_200 * SECOND - 3 * 60 * SECOND
"""Three minutes before a month ends."""
ACCOUNTS = (
    Account(
        "team",
        Limits(
            tokens_per_minute=600,
            token_burst=400,
            requests_per_minute=60,
            request_burst=20,
            concurrent_requests=6,
            budget_nanos=40_000,
        ),
    ),
    Account("team:model:m", Limits(tokens_per_minute=1200, token_burst=250, concurrent_requests=5)),
    Account("team:key:k", Limits(requests_per_minute=30, request_burst=10, budget_nanos=9_000)),
)


@dataclass
class Charge:
    """What was granted (or taken beyond what was held) at a time; what is not used is taken off later."""

    at_us: int
    amount: int
    extra: bool = False


@dataclass
class ModelLease:
    accounts: tuple[Account, ...]
    month: str
    expires_us: int
    nanos: int
    nanos_per_token: int
    seen: Used
    tokens: list[dict[str, Charge]]
    requests: dict[str, Charge]
    held: int
    """Tokens, whether an account limits them or not."""
    charged: Used = NOTHING_YET
    """When it expired."""
    covered: Used = NOTHING_YET
    taken_up: bool = False


@dataclass
class Charges:
    """Of one bucket."""

    rate: int
    burst: int
    all: list[Charge] = field(default_factory=list)

    def drawn_at(self, now_us: int) -> int:
        """Had each lease only taken what it is known to use."""
        drawn, at_us = 0, 0
        for charge in self.all:
            drawn = max(0, drawn - self.rate * (charge.at_us - at_us)) + charge.amount * UNIT
            at_us = charge.at_us
        return max(0, drawn - self.rate * (now_us - at_us))

    def check_windows(self) -> None:
        granted = [charge for charge in self.all if not charge.extra]
        for first, start in enumerate(granted):
            total = 0
            for charge in granted[first:]:
                total += charge.amount
                assert total * UNIT <= self.burst * UNIT + self.rate * (charge.at_us - start.at_us)


class LedgerMachine(RuleBasedStateMachine):
    leases = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        self.now_us = START_US
        self.ledger = Ledger(TTL_US)
        self.live: dict[str, ModelLease] = {}
        self.lapsed: dict[str, ModelLease] = {}
        self.count = 0
        self.tokens = {
            account.name: Charges(account.limits.tokens_per_minute, account.limits.token_burst or 0)
            for account in ACCOUNTS
            if account.limits.tokens_per_minute is not None
        }
        self.requests = {
            account.name: Charges(account.limits.requests_per_minute, account.limits.request_burst or 0)
            for account in ACCOUNTS
            if account.limits.requests_per_minute is not None
        }
        self.spent: dict[tuple[str, str], int] = {}

    @property
    def month(self) -> Month:
        return month_at(self.now_us)

    @rule(seconds=st.sampled_from([0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 15, 120, 301]), micros=st.integers(0, 3))
    def time_passes(self, seconds: int, micros: int) -> None:
        self.now_us += seconds * SECOND + micros
        self.ledger.sweep(self.now_us)
        expired = [(lease.expires_us, name) for name, lease in self.live.items() if lease.expires_us <= self.now_us]
        for _, name in sorted(expired):
            self.model_lapse(name)
        # What has expired now is remembered from now on.
        self.lapsed = {name: lease for name, lease in self.lapsed.items() if lease.expires_us > self.now_us}

    @rule(
        target=leases,
        which=st.sets(st.sampled_from(ACCOUNTS)).map(lambda found: tuple(sorted(found, key=lambda a: a.name))),
        prompt=st.integers(0, 60),
        least=st.integers(0, 20),
        more=st.integers(0, 40),
        nanos=st.integers(0, 5),
    )
    def acquire(
        self, which: tuple[Account, ...], prompt: int, least: int, more: int, nanos: int
    ) -> str | MultipleResults[str]:
        self.count += 1
        ask = Ask(
            lease_id=f"lease-{self.count}",
            accounts=which,
            prompt_tokens=prompt,
            output_tokens_min=least,
            output_tokens_max=least + more,
            prompt_nanos=nanos * prompt,
            nanos_per_output_token=2 * nanos,
        )
        before = self.counted()
        answer = self.ledger.acquire(ask, self.now_us, self.month)
        if isinstance(answer, Granted):
            assert least <= answer.output_tokens <= least + more
            self.model_take(ask, answer.output_tokens)
        else:
            assert self.counted() == before
            self.check_refusal(ask, answer)
            return multiple()
        return ask.lease_id

    def check_refusal(self, ask: Ask, refused: Refused) -> None:
        """It is granted at the time that was told, unless for a slot; and not a microsecond before."""
        if refused.never or refused.retry_after_s is None:
            assert refused.kind == "concurrency" or refused.asked > refused.limit
            return
        then_us = self.now_us + round(refused.retry_after_s * SECOND)
        if any(lease.expires_us <= then_us and lease.seen != NOTHING_YET for lease in self.live.values()):
            # It may be charged more than it holds.
            return
        answer = copy.deepcopy(self.ledger).acquire(ask, then_us, month_at(then_us))
        assert isinstance(answer, Granted) or answer.kind == "concurrency"
        before_us = then_us - 1
        # Leases that expire meanwhile give back what they hold.
        if not any(lease.expires_us <= before_us for lease in self.live.values()):
            answer = copy.deepcopy(self.ledger).acquire(ask, before_us, month_at(before_us))
            assert isinstance(answer, Refused)
            assert (answer.kind, answer.retry_after_s) == (refused.kind, 1 / SECOND)

    @rule(lease=leases, least=st.integers(1, 30), more=st.integers(0, 30), given=st.booleans())
    def extend(self, lease: str, least: int, more: int, given: bool) -> None:
        """`given`: whether the quotas are still there."""
        known = self.live.get(lease)
        if known is not None and len(known.tokens) == MAX_TAKES:
            return
        granted = self.ledger.extend(lease, ACCOUNTS if given else (), least, least + more, self.now_us)
        if lease in self.lapsed:
            known = self.model_take_up(lease, NOTHING_YET)
        assert given or known is None or granted == least + more
        if known is None:
            assert granted == 0
        elif granted:
            assert least <= granted <= least + more
            known.nanos += granted * known.nanos_per_token
            known.held += granted
            known.tokens.append(self.charge(self.tokens, known.accounts, granted, extra=not given))

    @rule(lease=leases, tokens=st.integers(0, 200), nanos=st.integers(0, 300))
    def renew(self, lease: str, tokens: int, nanos: int) -> None:
        used = Used(tokens=tokens, nanos=nanos)
        self.ledger.renew({lease: used}, self.now_us)
        if lease in self.lapsed:
            self.model_take_up(lease, used)
        if (known := self.live.get(lease)) is not None:
            known.seen, known.expires_us = used, self.now_us + TTL_US

    @rule(lease=consumes(leases), tokens=st.integers(0, 120), nanos=st.integers(0, 900), counts=st.booleans())
    def settle(self, lease: str, tokens: int, nanos: int, counts: bool) -> None:
        used = Used(tokens=tokens, nanos=nanos) if counts else Used(tokens=0, nanos=0, counts=False)
        known = self.live.pop(lease, None) or self.lapsed.pop(lease, None)
        assert self.ledger.settle(lease, used, self.now_us) == (known is not None)
        if known is not None:
            self.model_charge(known, used)
        assert not self.ledger.settle(lease, used, self.now_us), "a lease was settled twice"

    @rule(account=st.sampled_from(ACCOUNTS), nanos=st.integers(0, 10_000))
    def recover(self, account: Account, nanos: int) -> None:
        self.ledger.seed_spent(account.name, self.month.name, nanos)
        key = (account.name, self.month.name)
        self.spent[key] = max(self.spent.get(key, 0), nanos)

    @rule()
    def forget_idle(self) -> None:
        self.ledger.forget_idle(self.now_us)

    def charge(
        self, buckets: dict[str, Charges], accounts: tuple[Account, ...], amount: int, *, extra: bool = False
    ) -> dict[str, Charge]:
        charges = {account.name: Charge(self.now_us, amount, extra) for account in accounts if account.name in buckets}
        for name, charge in charges.items():
            buckets[name].all.append(charge)
        return charges

    def model_take(self, ask: Ask, granted: int) -> None:
        self.live[ask.lease_id] = ModelLease(
            ask.accounts,
            self.month.name,
            self.now_us + TTL_US,
            ask.prompt_nanos + granted * ask.nanos_per_output_token,
            ask.nanos_per_output_token,
            Used(tokens=0, nanos=0),
            [self.charge(self.tokens, ask.accounts, ask.prompt_tokens + granted)],
            self.charge(self.requests, ask.accounts, 1),
            ask.prompt_tokens + granted,
        )

    def model_lapse(self, name: str) -> None:
        lease = self.live.pop(name)
        held = lease.held
        self.model_charge(lease, lease.seen)
        lease.covered = Used(tokens=lease.charged.tokens + held, nanos=lease.charged.nanos + lease.nanos)
        lease.charged = Used(
            tokens=max(lease.charged.tokens, lease.seen.tokens), nanos=max(lease.charged.nanos, lease.seen.nanos)
        )
        lease.tokens, lease.requests = [], {}
        lease.expires_us = self.now_us + LAPSED_TTLS * TTL_US
        self.lapsed[name] = lease

    def model_take_up(self, name: str, used: Used) -> ModelLease:
        lease = self.lapsed.pop(name)
        lease.nanos = max(0, max(lease.covered.nanos, used.nanos) - lease.charged.nanos)
        tokens = max(0, max(lease.covered.tokens, used.tokens) - lease.charged.tokens)
        lease.held = tokens
        lease.tokens = [self.charge(self.tokens, lease.accounts, tokens, extra=True)]
        lease.taken_up, lease.expires_us = True, self.now_us + TTL_US
        self.live[name] = lease
        return lease

    def model_charge(self, lease: ModelLease, used: Used) -> None:
        due = max(0, used.tokens - lease.charged.tokens)
        for account in lease.accounts:
            key = (account.name, lease.month)
            self.spent[key] = self.spent.get(key, 0) + max(0, used.nanos - lease.charged.nanos)
            if not used.counts and account.name in lease.requests:
                lease.requests[account.name].amount = 0
            charges = [takes[account.name] for takes in lease.tokens if account.name in takes]
            unused = sum(charge.amount for charge in charges) - due
            for charge in reversed(charges):
                back = min(max(0, unused), charge.amount)
                charge.amount -= back
                unused -= back
            if account.name in self.tokens and unused < 0:
                self.tokens[account.name].all.append(Charge(self.now_us, -unused, extra=True))

    def counted(self) -> list[object]:
        """All that has been counted, apart from what time and the limits make of it."""
        found: list[object] = []
        for account in ACCOUNTS:
            if (counters := self.ledger.counters(account.name)) is None:
                found.append((0, (0, 0, []), (0, 0, []), {}))
                continue
            buckets = [
                (bucket.drawn_at(self.now_us), bucket.fresh, copy.deepcopy(bucket.lows)) if bucket else (0, 0, [])
                for bucket in (counters.requests, counters.tokens)
            ]
            found.append((counters.outstanding, *buckets, copy.deepcopy(counters.months)))
        return found

    @invariant()
    def counts_are_those_of_the_live_leases(self) -> None:
        for account in ACCOUNTS:
            under = [lease for lease in self.live.values() if account in lease.accounts]
            assert self.ledger.outstanding(account.name) == len(under)
            acquired = [lease for lease in under if not lease.taken_up]
            assert account.limits.concurrent_requests is None or len(acquired) <= account.limits.concurrent_requests
            counters = self.ledger.counters(account.name)
            if counters is None:
                continue
            for month, spending in counters.months.items():
                assert spending.held == sum(lease.nanos for lease in under if lease.month == month)
                assert spending.spent == self.spent.get((account.name, month), 0)

    @invariant()
    def buckets_are_what_they_would_be_had_each_lease_only_taken_what_it_used(self) -> None:
        for account in ACCOUNTS:
            counters = self.ledger.counters(account.name)
            for bucket, charges in (
                (counters and counters.tokens, self.tokens.get(account.name)),
                (counters and counters.requests, self.requests.get(account.name)),
            ):
                if bucket and charges:
                    assert bucket.drawn_at(self.now_us) == charges.drawn_at(self.now_us)

    def teardown(self) -> None:
        for name in [*self.live, *self.lapsed]:
            lease = self.live.pop(name, None) or self.lapsed.pop(name)
            assert self.ledger.settle(name, lease.seen, self.now_us)
            self.model_charge(lease, lease.seen)
        self.counts_are_those_of_the_live_leases()
        for account in ACCOUNTS:
            assert self.ledger.outstanding(account.name) == 0
            counters = self.ledger.counters(account.name)
            assert counters is None or not any(spending.held for spending in counters.months.values())
            for bucket in (counters and counters.tokens, counters and counters.requests):
                assert not bucket or (bucket.lows == [] and bucket.fresh == 0)
        for charges in (*self.tokens.values(), *self.requests.values()):
            charges.check_windows()


LedgerMachine.TestCase.settings = settings(
    max_examples=80, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
test_ledger = LedgerMachine.TestCase
