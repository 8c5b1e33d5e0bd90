"""All pools, kept up."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from forebay.core.clock import Clock
from forebay.fleet.choice import ReplicaSnapshot
from forebay.fleet.driver import PoolDriver, ReplicaStartError
from forebay.fleet.pool import Pool
from forebay.fleet.replica import Replica
from forebay.fleet.settings import FleetSettings
from forebay.fleet.supervisor import Prober, Supervisor


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """What a pool is made of; for `exact_fields` see `Pool`."""

    name: str
    driver: PoolDriver
    replicas: int
    exact_fields: bool


class Fleet:
    """The pools and the supervisors of their replicas."""

    def __init__(self, plans: Sequence[PoolPlan], prober: Prober, settings: FleetSettings, clock: Clock) -> None:
        self._pools: dict[str, Pool] = {}
        self._supervisors: dict[str, tuple[Supervisor, ...]] = {}
        for plan in plans:
            replicas = [Replica(f"{plan.name}-{index}") for index in range(plan.replicas)]
            self._pools[plan.name] = Pool(plan.name, replicas, exact_fields=plan.exact_fields)
            self._supervisors[plan.name] = tuple(
                Supervisor(replica, plan.driver, prober, settings, clock) for replica in replicas
            )

    def pool(self, name: str) -> Pool:
        return self._pools[name]

    def pools(self) -> Mapping[str, Pool]:
        return self._pools

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Start every replica and keep it up; on leaving, stop them all and wait until they are gone."""
        async with asyncio.TaskGroup() as tasks:
            running = [
                tasks.create_task(supervisor.run())
                for supervisors in self._supervisors.values()
                for supervisor in supervisors
            ]
            try:
                yield
            finally:
                for task in running:
                    task.cancel()

    async def first_starts(self) -> AsyncGenerator[tuple[ReplicaSnapshot, ReplicaStartError | None]]:
        """Each replica in turn, once its first start has ended, and how that failed if it did."""
        for pool, supervisors in self._supervisors.items():
            for index, supervisor in enumerate(supervisors):
                await supervisor.first_start.wait()
                yield self._pools[pool].snapshots()[index], supervisor.start_error
