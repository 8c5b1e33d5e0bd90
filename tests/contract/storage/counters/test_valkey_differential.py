"""Valkey's scripts and the pure ledger, given the same operations at the same times, give the same answers."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forebay.storage.counters.valkey import ValkeyReservations
from forebay.tenancy.reservation.lease import Ask, Refused, Used
from forebay.tenancy.reservation.ledger import Ledger
from forebay.tenancy.reservation.limits import Account, Limits
from forebay.tenancy.reservation.month import month_at
from tests.support.servers.valkey import ValkeyServer

SECOND = 1_000_000
END_OF_NOVEMBER_2026 = 1_796_083_200 * SECOND
LEASES = [f"lease-{number}" for number in range(6)]
TTL_S = 15.0


@dataclass(frozen=True)
class Step:
    """`name` with `arguments`, so many microseconds after the one before."""

    after_us: int
    name: str
    arguments: tuple[object, ...]


def _none_or(numbers: st.SearchStrategy[int]) -> st.SearchStrategy[int | None]:
    return st.none() | numbers


LIMITS = st.builds(
    Limits,
    tokens_per_minute=_none_or(st.sampled_from([0, 7, 600, 6000, 100_000_000])),
    token_burst=_none_or(st.sampled_from([0, 50, 100, 1000, 100_000_000])),
    requests_per_minute=_none_or(st.sampled_from([0, 1, 60, 61, 10_000])),
    request_burst=_none_or(st.sampled_from([1, 2, 3, 100])),
    concurrent_requests=_none_or(st.sampled_from([0, 1, 2, 5])),
    budget_nanos=_none_or(st.sampled_from([0, 1000, 123_456, 10**16, 9 * 10**15])),
)
ACCOUNTS = st.lists(
    st.builds(Account, st.sampled_from(["team", "team:model:m", "team:key:k"]), LIMITS),
    min_size=1,
    max_size=3,
    unique_by=lambda account: account.name,
)
TOKENS = st.integers(0, 120) | st.sampled_from([10**8, 10**8 + 1, 2**31])
NANOS = st.integers(0, 500) | st.sampled_from([10**12, 10**15, 10**18])
ASKS = st.builds(
    Ask,
    lease_id=st.sampled_from(LEASES),
    accounts=ACCOUNTS.map(tuple),
    prompt_tokens=TOKENS,
    output_tokens_min=st.integers(0, 20),
    output_tokens_max=st.integers(20, 100) | st.just(10**8),
    prompt_nanos=NANOS,
    nanos_per_output_token=NANOS,
)
ORDINARY_LIMITS = Limits(
    tokens_per_minute=600,
    token_burst=500,
    requests_per_minute=60,
    request_burst=9,
    concurrent_requests=4,
    budget_nanos=10**6,
)
ORDINARY_ASKS = st.builds(
    Ask,
    lease_id=st.sampled_from(LEASES),
    accounts=st.just((Account("team", ORDINARY_LIMITS), Account("team:key:k", Limits(tokens_per_minute=1200)))),
    prompt_tokens=st.integers(0, 60),
    output_tokens_min=st.integers(0, 20),
    output_tokens_max=st.integers(20, 60),
    prompt_nanos=st.integers(0, 500),
    nanos_per_output_token=st.integers(0, 20),
)
NOT_COUNTED = st.just(Used(tokens=0, nanos=0, counts=False))
USED = st.builds(Used, tokens=TOKENS, nanos=NANOS, counts=st.just(True)) | NOT_COUNTED
ORDINARY_USED = st.builds(Used, tokens=st.integers(0, 80), nanos=st.integers(0, 900)) | NOT_COUNTED
WILD_TIMES = st.sampled_from([0, 0, 1, SECOND]) | st.integers(-SECOND, 40 * SECOND) | st.just(10**14)
ORDINARY_TIMES = st.integers(0, 5 * SECOND) | st.sampled_from(
    [0, 0, 0, 0, 1, 1, SECOND, SECOND, 4 * SECOND, 15 * SECOND, 300 * SECOND]
)


def _steps(
    after: st.SearchStrategy[int],
    asks: st.SearchStrategy[Ask],
    used: st.SearchStrategy[Used],
    seeded: st.SearchStrategy[int],
) -> st.SearchStrategy[Step]:
    leases = st.sampled_from(LEASES)
    acquire = st.tuples(asks)
    accounts = asks.map(lambda ask: ask.accounts) | st.just(())
    extend = st.tuples(leases, accounts, st.integers(0, 10), st.integers(10, 30))
    settle = st.tuples(leases, used)
    renew = st.tuples(st.dictionaries(leases, used))
    seed = st.tuples(st.just("team"), st.sampled_from(["2026-10", "2026-11", "2026-12"]), seeded)
    return st.one_of(
        st.builds(Step, after, st.just("acquire"), acquire),
        st.builds(Step, after, st.just("acquire"), acquire),
        st.builds(Step, after, st.just("extend"), extend),
        st.builds(Step, after, st.just("extend"), extend),
        st.builds(Step, after, st.just("settle"), settle),
        st.builds(Step, after, st.just("settle"), settle),
        st.builds(Step, after, st.just("renew"), renew),
        st.builds(Step, after, st.just("seed_spent"), seed),
    )


def _probe(account: str, limits: Limits) -> Step:
    """A request that is refused, which tells what is left."""
    ask = Ask(
        lease_id="probe",
        accounts=(Account(account, limits),),
        prompt_tokens=10**8 + 1,
        output_tokens_min=0,
        output_tokens_max=0,
        prompt_nanos=10**18,
    )
    return Step(0, "acquire", (ask,))


PROBES = [
    _probe(account, limits)
    for account in ("team", "team:model:m", "team:key:k")
    for limits in (Limits(budget_nanos=8 * 10**15), Limits(tokens_per_minute=1, token_burst=10**8))
]


async def _in_valkey(url: str, steps: Sequence[Step]) -> list[object]:
    now_us = END_OF_NOVEMBER_2026
    answers: list[object] = []
    async with ValkeyReservations(url, TTL_S, prefix=uuid4().hex, now_us=lambda: now_us) as store:
        for step in steps:
            now_us += step.after_us
            answers.append(await getattr(store, step.name)(*step.arguments))
            answers.append(await store.outstanding(["team", "team:model:m", "team:key:k"]))
    return answers


def _in_ledger(steps: Sequence[Step]) -> list[object]:
    now_us = END_OF_NOVEMBER_2026
    ledger = Ledger(round(TTL_S * SECOND))
    answers: list[object] = []
    for step in steps:
        now_us += step.after_us
        answers.append(_call(ledger, step, now_us))
        ledger.sweep(now_us)
        answers.append({name: ledger.outstanding(name) for name in ["team", "team:model:m", "team:key:k"]})
    return answers


def _call(ledger: Ledger, step: Step, now_us: int) -> object:
    operation: Callable[..., object] = getattr(ledger, step.name)
    if step.name == "acquire":
        return operation(*step.arguments, now_us, month_at(now_us))
    if step.name == "seed_spent":
        return operation(*step.arguments)
    return operation(*step.arguments, now_us)


def _compare(url: str, asked: Sequence[Step]) -> None:
    steps = [*asked, *PROBES]
    in_valkey, in_ledger = asyncio.run(_in_valkey(url, steps)), _in_ledger(steps)
    for index, (valkey_answer, ledger_answer) in enumerate(zip(in_valkey, in_ledger, strict=True)):
        assert valkey_answer == ledger_answer, steps[index // 2]


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(_steps(WILD_TIMES, ASKS, USED, NANOS), min_size=10, max_size=40))
def test_both_answer_the_same_whatever_is_asked(server: ValkeyServer, steps: list[Step]) -> None:
    _compare(server.url, steps)


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(
        _steps(ORDINARY_TIMES, ORDINARY_ASKS, ORDINARY_USED, st.integers(0, 10**5)), min_size=30, max_size=60
    )
)
def test_both_answer_the_same_in_ordinary_use(server: ValkeyServer, steps: list[Step]) -> None:
    _compare(server.url, steps)


@pytest.mark.parametrize(
    "unix_s", [0, 12_960_000, 27_000_000, 951_782_400, 951_868_799, 1_709_164_800, 4_107_542_399, 1_798_761_599]
)
def test_both_know_the_calendar(server: ValkeyServer, prefix: str, unix_s: int) -> None:
    """A budget that is used up comes back with the next month: leap days, ends of years and centuries."""
    account = Account("team", Limits(budget_nanos=100))
    now_us = unix_s * SECOND + 7
    ask = Ask(
        lease_id="a", accounts=(account,), prompt_tokens=0, output_tokens_min=0, output_tokens_max=0, prompt_nanos=60
    )

    async def waits() -> float | None:
        async with ValkeyReservations(server.url, TTL_S, prefix=prefix, now_us=lambda: now_us) as store:
            await store.seed_spent("team", month_at(now_us).name, 50)
            refused = await store.acquire(ask)
            assert isinstance(refused, Refused)
            return refused.retry_after_s

    assert asyncio.run(waits()) == month_at(now_us).left_us / SECOND
