"""What requests hold of their quotas, and which idempotency keys were used: in this process, or shared."""

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from forebay.config.loading import LoadedConfig
from forebay.core.clock import Clock
from forebay.serving.repeat_book import RepeatBook
from forebay.storage.counters.fallback import FallbackReservations
from forebay.storage.counters.memory import MemoryReservations
from forebay.storage.counters.repeats import MemoryRepeats, ValkeyRepeats
from forebay.storage.counters.valkey import ValkeyReservations
from forebay.tenancy.reservation.lease import ReservationStore
from forebay.wiring.sole_user import sole_user

NS_PER_US = 1000


@dataclass(frozen=True, slots=True)
class Counters:
    """Of all requests that this gateway serves."""

    reservations: ReservationStore
    repeats: RepeatBook


@asynccontextmanager
async def open_counters(loaded: LoadedConfig, clock: Clock, unix_time: Callable[[], float]) -> AsyncGenerator[Counters]:
    """Raises ConfigurationError."""
    url, tenancy = loaded.config.storage.counters, loaded.config.tenancy
    if url is None:
        with sole_user(loaded.data_dir):
            in_memory = MemoryReservations(lambda: time.monotonic_ns() // NS_PER_US, unix_time)
            yield Counters(in_memory, MemoryRepeats(unix_time))
        return
    async with ValkeyReservations(url, tenancy.lease_ttl_s) as shared, ValkeyRepeats(url) as repeats:
        reservations = FallbackReservations(
            shared,
            without=tenancy.without_counters,
            gateways=tenancy.gateways,
            clock=clock,
            wall=unix_time,
            lease_ttl_s=tenancy.lease_ttl_s,
        )
        yield Counters(reservations, repeats)
