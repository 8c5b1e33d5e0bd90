"""The ledger is exact: gateways bill what the engines say that each request has used, whatever dies or leaves.

The tests build on each other: they share one ledger, which grows.
"""

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import msgspec
import pytest

from forebay.metering.usage import OpenedUsage, UsageRecord
from forebay.serving.budget_seeding import AGAIN_S
from forebay.storage.usage.lines import OPENED, lines_of
from tests.acceptance.ledger_books import (
    differences,
    drawn_tokens,
    engines_books,
    ledger,
    outstanding,
    spent_nanos,
    tokens_of,
)
from tests.acceptance.ledger_clients import PATIENCE_S, Asked, Clients, ask, stream_of
from tests.acceptance.ledger_cluster import ENGINES, GATEWAYS, LEASE_TTL_S, Cluster, cluster
from tests.acceptance.processes import until

pytestmark = pytest.mark.chaos

CLIENTS = 8
SETTLE_LIMIT_S = 30.0
SLOW_BUCKET = {"tokens_per_minute": 2, "token_burst": 50_000_000}
"""What is taken of it does not come back within a test, so that it can be counted."""
QUOTAS: dict[str, tuple[dict[str, Any], ...]] = {
    "free": (),
    "roomy": ({**SLOW_BUCKET, "monthly_budget_usd": "1000"}, {"alias": "north", "monthly_budget_usd": "1000"}),
    "narrow": ({"concurrent_requests": 2, "monthly_budget_usd": "1000"},),
    "tight": ({"tokens_per_minute": 12_000, "token_burst": 600},),
}
QUOTA_IDS = ("roomy", "roomy:model:north", "narrow", "tight")
BUDGETS = {"roomy": ("roomy", None), "roomy:model:north": ("roomy", "north"), "narrow": ("narrow", None)}
"""Quota → tenant and alias."""


HANGS_S = 20.0
"""No request takes so long, whatever is gone."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("ledger")) as made:
        yield made


@pytest.fixture(scope="module")
def keys(shared: Cluster) -> dict[str, str]:
    """Of each tenant."""
    return {name: shared.tenant(name, *quotas) for name, quotas in QUOTAS.items()}


def seed() -> int:
    """Of this run; FOREBAY_TEST_SEED repeats one."""
    return int(os.environ.get("FOREBAY_TEST_SEED") or random.randrange(10**6))


def clients_of(made: Cluster, keys: dict[str, str], name: str) -> Clients:
    roots: dict[str, Callable[[], str]] = {name: _root_of(made, name) for name in made.gateways}
    return Clients(name, seed(), roots, keys, ENGINES)


def _root_of(made: Cluster, name: str) -> Callable[[], str]:
    return lambda: made.gateways[name].root


async def killing_gateways(made: Cluster, clients: Clients, chance: random.Random, kills: int) -> None:
    """Kill one after the other in mid-load, and start each again."""
    names = sorted(made.gateways)
    chance.shuffle(names)
    for kill in range(kills):
        await asyncio.sleep(1.5 + chance.random())
        name = names[kill % len(names)]
        await asyncio.to_thread(made.gateways[name].kill)
        await asyncio.sleep(chance.random())
        await asyncio.to_thread(made.start_gateway, name)
    await asyncio.sleep(1.5)
    clients.stop.set()


async def under_load(clients: Clients, events: Any) -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(events)
        await clients.run(CLIENTS)


def settled(made: Cluster) -> None:
    """Wait until nothing runs and every request of the engines is in the ledger."""
    until("the engines are idle", lambda: all(map(made.engine_is_idle, made.engines)), limit_s=SETTLE_LIMIT_S)
    deadline = time.monotonic() + SETTLE_LIMIT_S
    while set(engines_books(made)) - set(ledger(made)) and time.monotonic() < deadline:
        time.sleep(0.2)


def require_same_books(made: Cluster, clients: Clients) -> None:
    """Request by request; and what clients were told is what is billed."""
    engines, records = engines_books(made), ledger(made)
    wrong = differences(engines, records)
    assert not wrong, f"seed {clients.seed}, {len(wrong)} of {len(records)}:\n" + "\n".join(wrong[:10]) + made.printed()
    by_request = {record.request_id: record for record in records.values()}
    assert len(by_request) == len(records), "each request of a client has one record"
    for one in clients.asked:
        if one.outcome == "completed":
            record = by_request[one.request_id]
            assert one.usage in {None, tokens_of(record)}, (one, record)
            assert record.status in {"completed", "stopped", "recovered"}, (one, record)


def require_no_leases(made: Cluster) -> None:
    until("no lease is left", lambda: not any(outstanding(made, QUOTA_IDS).values()), limit_s=LEASE_TTL_S + 2)


def billed(made: Cluster, quota: str, *, without_recovered: bool = False) -> int:
    """Nano-dollars in the ledger that count against a budget."""
    tenant, alias = BUDGETS[quota]
    return sum(
        record.cost_nanos
        for record in ledger(made).values()
        if record.tenant == tenant and alias in {None, record.alias}
        if not (without_recovered and record.status == "recovered")
    )


def test_the_ledger_equals_the_engines_books(shared: Cluster, keys: dict[str, str]) -> None:
    clients = clients_of(shared, keys, "killing")
    asyncio.run(under_load(clients, killing_gateways(shared, clients, random.Random(clients.seed), 2)))
    settled(shared)
    tell(shared, clients, "two gateways killed")
    require_same_books(shared, clients)
    require_no_leases(shared)
    for quota in BUDGETS:
        # What cut-off requests had used since the last sign of life of their gateway, the counters are told later.
        assert 0 < billed(shared, quota, without_recovered=True) <= spent_nanos(shared, quota) <= billed(shared, quota)


def tell(made: Cluster, clients: Clients, what: str) -> None:
    """What this run was like, for whoever reads its output."""
    statuses = Counter(f"{record.status} ({record.counted})" for record in ledger(made).values())
    took = max(one.ended for one in clients.asked) - min(one.began for one in clients.asked)
    print(f"{what}: seed {clients.seed}, {len(clients.asked)} requests in {took:.0f} s: {dict(clients.outcomes())}")
    print(f"  in the ledger: {dict(statuses)}")


def test_a_gateway_killed_while_requests_are_let_in(shared: Cluster, keys: dict[str, str]) -> None:
    clients = clients_of(shared, keys, "burst")

    async def burst(name: str, enough: int) -> None:
        async with httpx.AsyncClient(timeout=PATIENCE_S) as http, asyncio.TaskGroup() as tasks:
            for number in range(24):
                tenant = ("free", "roomy")[number % 2]
                id_ = f"burst-{name}-{number}"
                one = Asked(request_id=id_, tenant=tenant, gateway=name, body=stream_of(ENGINES[number % 2], 50))
                clients.asked.append(one)
                tasks.create_task(ask(http, shared.gateways[name].root, keys[tenant], one))
            while len(opened_ids(shared, name, f"burst-{name}")) < enough:  # noqa: ASYNC110 - a file has no event
                await asyncio.sleep(0.001)
            await asyncio.to_thread(shared.gateways[name].kill)

    # When the first record is being written, and when some requests have gone on.
    for name, enough in zip(GATEWAYS, (1, 12), strict=True):
        asyncio.run(burst(name, enough))
        let_in = opened_ids(shared, name, f"burst-{name}")
        shared.start_gateway(name)
        until("all are in the ledger", lambda: let_in <= set(ledger(shared)), limit_s=SETTLE_LIMIT_S)  # noqa: B023 - called at once
    settled(shared)
    require_same_books(shared, clients)
    require_no_leases(shared)
    tell(shared, clients, "killed at the door")


def test_what_a_client_that_left_did_not_use_is_back_at_once(shared: Cluster, keys: dict[str, str]) -> None:
    before = drawn_tokens(shared, "roomy")
    one = Asked(request_id="left-1", tenant="roomy", gateway="one", body=stream_of("north", 950), leave_after_events=5)
    asyncio.run(ask_alone(shared, keys, one))
    assert one.outcome == "left"
    until("its record is closed", lambda: find(shared, "left-1") is not None, limit_s=3)
    record = find(shared, "left-1")
    assert record is not None
    used = record.prompt_tokens + record.output_tokens
    assert used < 900
    # The bucket fills up by two tokens a minute.
    until("the rest is back", lambda: used - 3 <= drawn_tokens(shared, "roomy") - before <= used, limit_s=2)
    assert outstanding(shared, ["roomy"]) == {"roomy": 0}


def test_clients_that_leave_while_the_counters_do_not_answer(shared: Cluster, keys: dict[str, str]) -> None:
    before = drawn_tokens(shared, "roomy")
    left = [
        Asked(
            request_id=f"waiting-{number}",
            tenant="roomy",
            gateway=GATEWAYS[number % 2],
            body=stream_of("south", 500),
            leave_after_s=0.1 + 0.05 * number,
        )
        for number in range(8)
    ]

    async def leave_all() -> None:
        await asyncio.gather(*(ask_alone(shared, keys, one) for one in left))

    shared.valkey.freeze()
    try:
        asyncio.run(leave_all())
        assert [one.outcome for one in left] == ["left"] * len(left)
        # Long enough for the gateways to give up what they themselves have asked of it.
        time.sleep(1)
    finally:
        shared.valkey.go_on()
    require_no_leases(shared)
    settled(shared)
    assert not differences(engines_books(shared), ledger(shared))
    used = [record for record in ledger(shared).values() if record.request_id in {one.request_id for one in left}]
    assert not any(record.prompt_tokens + record.output_tokens for record in used)
    until("all is back", lambda: abs(drawn_tokens(shared, "roomy") - before) <= 3, limit_s=LEASE_TTL_S + 2)


def opened_ids(made: Cluster, gateway: str, request_id: str) -> set[str]:
    """Of the records in a gateway's log that were opened for requests whose id begins so."""
    opened = [
        msgspec.json.decode(body, type=OpenedUsage)
        for segment in (made.directory / gateway / "data" / "usage" / "log").rglob("*.log")
        for kind, body in lines_of(segment.read_bytes())
        if kind == OPENED and request_id.encode() in body
    ]
    return {each.id for each in opened if each.request_id.startswith(request_id)}


def find(made: Cluster, request_id: str) -> UsageRecord | None:
    """A client's request in the ledger."""
    return next((record for record in ledger(made).values() if record.request_id == request_id), None)


async def ask_alone(made: Cluster, keys: dict[str, str], one: Asked) -> None:
    async with httpx.AsyncClient(timeout=PATIENCE_S) as http:
        await ask(http, made.gateways[one.gateway].root, keys[one.tenant], one)


def outage(made: Cluster, keys: dict[str, str], name: str) -> tuple[Clients, list[Asked]]:
    """Load, with Valkey killed in the middle of it and started again, empty; those requests that came and went while it
    was gone.
    """
    clients = clients_of(made, keys, name)
    gone: list[float] = []

    async def events() -> None:
        await asyncio.sleep(1.5)
        made.valkey.stop()
        gone.append(time.monotonic())
        await asyncio.sleep(4)
        gone.append(time.monotonic())
        # Not in a thread of its own, with which the server would end.
        made.valkey.start()
        await asyncio.sleep(2.5)
        clients.stop.set()

    asyncio.run(under_load(clients, events()))
    for gateway in made.gateways.values():
        assert gateway.process is not None
        assert gateway.process.process.poll() is None
    slowest = max(one.ended - one.began for one in clients.asked)
    assert slowest < HANGS_S, f"one took {slowest} s"
    # What was asked in the first moment may have been let in before.
    return clients, [one for one in clients.asked if gone[0] + 0.2 < one.began and one.ended < gone[1]]


def require_shared_again(made: Cluster, clients: Clients) -> None:
    """The counters know what was asked last, and the books agree."""
    settled(made)
    require_same_books(made, clients)
    require_no_leases(made)
    assert drawn_tokens(made, "roomy") > 0


def test_without_counters_requests_under_quotas_are_refused(shared: Cluster, keys: dict[str, str]) -> None:
    clients, meanwhile = outage(shared, keys, "refusing")
    tell(shared, clients, "counters killed, refuse")
    limited = [one for one in meanwhile if one.tenant != "free"]
    free = [one for one in meanwhile if one.tenant == "free"]
    told = {one.status for one in limited if one.outcome != "left"}
    assert told <= {503, 400}, [one for one in limited if one.outcome != "left" and one.status not in {503, 400}][:3]
    assert 503 in told
    for one in limited:
        if one.outcome == "refused" and one.status == 503:
            assert "store_unavailable" in one.detail, one
    assert {one.status for one in free if one.outcome != "left"} <= {200, 400}
    assert [one for one in free if one.outcome == "completed"]
    require_shared_again(shared, clients)


def test_without_counters_gateways_admit_their_share(shared: Cluster, keys: dict[str, str]) -> None:
    shared.reconfigure('"refuse"', '"share"')
    clients, meanwhile = outage(shared, keys, "sharing")
    tell(shared, clients, "counters killed, share")
    for tenant in ("free", "roomy", "narrow"):
        served = [one for one in meanwhile if one.tenant == tenant and one.outcome == "completed"]
        assert served, tenant
    for one in meanwhile:
        assert one.outcome == "left" or one.status in {200, 400, 429} or "share" in one.detail, one
    require_shared_again(shared, clients)


def test_budgets_are_what_the_ledger_says(shared: Cluster) -> None:
    """Also after kills, and after the counters have lost their memory."""
    for quota in BUDGETS:
        until(
            f"{quota} has spent what is billed",
            lambda: spent_nanos(shared, quota) == billed(shared, quota),  # noqa: B023 - called at once
            limit_s=AGAIN_S + SETTLE_LIMIT_S,
        )


def test_every_gateway_reports_the_whole_ledger(shared: Cluster) -> None:
    records = ledger(shared).values()
    sums = {
        "requests": len(records),
        "prompt_tokens": sum(record.prompt_tokens for record in records),
        "cached_tokens": sum(record.cached_tokens for record in records),
        "output_tokens": sum(record.output_tokens for record in records),
        "cost_nanos": sum(record.cost_nanos for record in records),
    }
    for name in GATEWAYS:

        def reported() -> bool:
            total = shared.admin("GET", "usage", gateway=name)["total"]  # noqa: B023 - called at once
            return {what: total[what] for what in sums} == sums

        # Those of the other gateway come with the files that it writes into the warehouse.
        until(f"the gateway {name} reports {sums}", reported, limit_s=SETTLE_LIMIT_S)


def test_an_engine_that_is_killed_is_billed_by_what_was_last_seen(shared: Cluster, keys: dict[str, str]) -> None:
    asked = [
        Asked(request_id=f"dying-{number}", tenant="roomy", gateway=GATEWAYS[number % 2], body=stream_of("south", 950))
        for number in range(6)
    ]
    asked[4].body["stream"] = False
    del asked[4].body["stream_options"]
    asked[5].body["model"] = "north"
    streams = asked[:4]

    async def run() -> None:
        async with asyncio.TaskGroup() as tasks:
            for one in asked:
                tasks.create_task(ask_alone(shared, keys, one))
            while not all(one.events > 20 for one in streams):
                assert not any(one.ended for one in streams), streams
                await asyncio.sleep(0.005)
            shared.engines["south"].kill()

    asyncio.run(run())
    until("all are in the ledger", lambda: all(find(shared, one.request_id) for one in asked), limit_s=15)
    records = {record.request_id: record for record in ledger(shared).values()}
    for one in streams:
        record = records[one.request_id]
        assert (one.outcome, one.status) == ("broken", 200), one
        assert tokens_of(record) == one.usage, (record, one)
        assert (record.status, record.counted) == ("failed", "last_seen")
        assert 0 < record.output_tokens < 950
    assert tokens_of(records["dying-4"]) == (0, 0, 0), "nothing was seen of an answer that comes as a whole"
    assert asked[5].outcome == "completed"
    assert tokens_of(records["dying-5"]) == asked[5].usage
    require_no_leases(shared)
