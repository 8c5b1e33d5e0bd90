"""A gateway of its own process: `python -m …gateway_process URL PREFIX TTL_S LEASES`. It holds so many leases of the
account `team`, prints `ready`, and keeps them alive until it is killed or its standard input ends.
"""

import asyncio
import sys
from contextlib import ExitStack
from uuid import uuid4

from forebay.cli.parent import exit_with_parent
from forebay.storage.counters.valkey import ValkeyReservations
from forebay.tenancy.reservation.heartbeat import Heartbeat
from forebay.tenancy.reservation.lease import Ask, Granted
from forebay.tenancy.reservation.limits import Account, Limits


async def hold(url: str, prefix: str, ttl_s: float, leases: int) -> None:
    account = Account("team", Limits(concurrent_requests=100, tokens_per_minute=6000, token_burst=1000))
    async with ValkeyReservations(url, ttl_s, prefix=prefix) as store:
        heartbeat = Heartbeat(store, ttl_s / 3)
        with ExitStack() as held:
            for _ in range(leases):
                ask = Ask(
                    lease_id=uuid4().hex,
                    accounts=(account,),
                    prompt_tokens=10,
                    output_tokens_min=1,
                    output_tokens_max=10,
                )
                assert isinstance(await store.acquire(ask), Granted)
                held.enter_context(heartbeat.hold(ask.lease_id))
            print("ready", flush=True)
            await heartbeat.run()


if __name__ == "__main__":
    exit_with_parent()
    asyncio.run(hold(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])))
