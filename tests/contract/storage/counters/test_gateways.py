"""Gateways that share one Valkey admit together no more than one would, and one that is killed leaves nothing held."""

import asyncio
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from uuid import uuid4

from forebay.storage.counters.valkey import ValkeyReservations
from forebay.tenancy.reservation.lease import Ask, Granted, Used
from forebay.tenancy.reservation.limits import Account, Limits
from tests.support.servers.valkey import ValkeyServer

GATEWAYS = 8
REQUESTS = 50
PER_MINUTE = 60_000
BURST = 2_000
SLOTS = 5
LIMITS = Limits(
    tokens_per_minute=PER_MINUTE,
    token_burst=BURST,
    requests_per_minute=PER_MINUTE,
    request_burst=100,
    concurrent_requests=SLOTS,
)


@dataclass(frozen=True)
class Grant:
    """It was made at some time between the two (seconds)."""

    before: float
    after: float
    tokens: int


@dataclass
class Running:
    """Between the answers of acquire and the calls of settle, so never more than what is held."""

    now: int = 0
    most: int = 0


async def _gateway(url: str, prefix: str, seed: int, running: Running) -> list[Grant]:
    draw = random.Random(seed)
    grants: list[Grant] = []
    async with ValkeyReservations(url, 5.0, prefix=prefix) as store:
        for _ in range(REQUESTS):
            prompt, most = draw.randint(1, 200), draw.randint(1, 400)
            ask = Ask(
                lease_id=uuid4().hex,
                accounts=(Account("team", LIMITS),),
                prompt_tokens=prompt,
                output_tokens_min=1,
                output_tokens_max=most,
            )
            before = time.monotonic()
            answer = await store.acquire(ask)
            after = time.monotonic()
            if isinstance(answer, Granted):
                running.now += 1
                running.most = max(running.most, running.now)
                await asyncio.sleep(draw.random() * 0.01)
                used = prompt + draw.randint(0, answer.output_tokens)
                grants.append(Grant(before, after, used))
                running.now -= 1
                assert await store.settle(ask.lease_id, Used(tokens=used, nanos=0))
            else:
                await asyncio.sleep(min(answer.retry_after_s or 0.001, 0.02))
    return grants


def test_eight_gateways_admit_no_more_than_one_would(server: ValkeyServer, prefix: str) -> None:
    running = Running()

    async def all_gateways() -> list[Grant]:
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            tasks = [group.create_task(_gateway(server.url, prefix, seed, running)) for seed in range(GATEWAYS)]
        return [grant for task in tasks for grant in task.result()]

    grants = asyncio.run(all_gateways())
    assert len(grants) > GATEWAYS
    assert sum(grant.tokens for grant in grants) > BURST, "the limit was never reached"
    assert 1 < running.most <= SLOTS
    by_end = sorted(grants, key=lambda grant: grant.after)
    for start in grants:
        tokens = 0
        for grant in by_end:
            if grant.before >= start.before:
                tokens += grant.tokens
                assert tokens <= BURST + PER_MINUTE / 60 * (grant.after - start.before) + 1e-6

    async def outstanding() -> int:
        async with ValkeyReservations(server.url, 5.0, prefix=prefix) as store:
            return (await store.outstanding(["team"]))["team"]

    assert asyncio.run(outstanding()) == 0


def test_the_leases_of_a_gateway_that_was_killed_come_free(server: ValkeyServer, prefix: str) -> None:
    ttl_s = 1.0
    command = [sys.executable, "-m", f"{__package__}.gateway_process", server.url, prefix, str(ttl_s)]
    first = subprocess.Popen([*command, "3"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    second = subprocess.Popen([*command, "4"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        for process in (first, second):
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"

        async def until_freed() -> None:
            async with ValkeyReservations(server.url, ttl_s, prefix=prefix) as store:
                # Longer than a lease lives: they are renewed.
                await asyncio.sleep(1.5 * ttl_s)
                assert await store.outstanding(["team"]) == {"team": 7}
                first.kill()
                first.wait(10)
                for _ in range(200):
                    if await store.outstanding(["team"]) == {"team": 4}:
                        break
                    await asyncio.sleep(0.05)
                await asyncio.sleep(1.5 * ttl_s)
                assert await store.outstanding(["team"]) == {"team": 4}, "the living gateway keeps its own"

        asyncio.run(until_freed())
    finally:
        for process in (first, second):
            process.kill()
            process.communicate(timeout=10)
