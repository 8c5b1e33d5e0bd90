"""The gateway's own numbers, by Prometheus' conventions."""

import asyncio
from collections import Counter as Tally
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from forebay.core.clock import Clock
from forebay.core.errors import (
    BudgetExhausted,
    ConcurrencyExceeded,
    ForebayError,
    RequestRateExceeded,
    TokenRateExceeded,
)
from forebay.fleet.pool import Pool, describe
from forebay.gateway.usage_metrics import UsageMetrics

NO_POOL = "none"
"""The pool label of a request that was refused before a pool was found for it."""
CLIENT_LEFT = "499"
OF_QUOTAS = (TokenRateExceeded, RequestRateExceeded, ConcurrencyExceeded, BudgetExhausted)
UNEXPECTED = "500"

TTFT_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10, 30, 60)
DURATION_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300, 600)


class GatewayMetrics:
    """One registry; times in seconds."""

    def __init__(self, pools: Mapping[str, Pool], clock: Clock) -> None:
        self._clock = clock
        self._registry = CollectorRegistry()
        self._registry.register(_ReplicaCollector(pools))
        self._requests = Counter(
            "forebay_requests",
            "Requests that ended, by HTTP status.",
            ["pool", "route", "status"],
            registry=self._registry,
        )
        self._in_flight = Gauge(
            "forebay_requests_in_flight", "Requests being served.", ["pool"], registry=self._registry
        )
        self._ttft = Histogram(
            "forebay_time_to_first_token_seconds",
            "From a streaming request's arrival to the first byte of its answer.",
            ["pool"],
            buckets=TTFT_BUCKETS,
            registry=self._registry,
        )
        self._duration = Histogram(
            "forebay_request_duration_seconds",
            "From a request's arrival to the end of its answer.",
            ["pool", "route"],
            buckets=DURATION_BUCKETS,
            registry=self._registry,
        )
        self.usage = UsageMetrics(pools, self._registry)
        self._quota_refusals = Counter(
            "forebay_quota_refusals",
            "Requests that a quota did not cover, by problem type.",
            ["type"],
            registry=self._registry,
        )
        self._snapshot_age = Gauge(
            "forebay_configuration_age_seconds",
            "Since it was last certain that tenants, keys, quotas, prices and prompts are as the database has them.",
            registry=self._registry,
        )
        for pool in pools:
            self._in_flight.labels(pool)

    def watch_configuration(self, age_s: Callable[[], float]) -> None:
        """Tell `age_s()` whenever the numbers are asked for."""
        self._snapshot_age.set_function(age_s)

    @contextmanager
    def refusals(self, route: str) -> Generator[None]:
        """Count a request that an error ends before it has a pool."""
        try:
            yield
        except ForebayError as error:
            self._requests.labels(NO_POOL, route, str(error.status)).inc()
            raise

    @contextmanager
    def serving(self, pool: str, route: str) -> Generator["RequestTimer"]:
        """Count one request of `pool` from now to the end of the block, whichever way it ends."""
        timer = RequestTimer(self._clock, self._ttft.labels(pool))
        in_flight = self._in_flight.labels(pool)
        in_flight.inc()
        status = UNEXPECTED
        try:
            yield timer
            status = "200"
        except ForebayError as error:
            status = str(error.status)
            if isinstance(error, OF_QUOTAS):
                self._quota_refusals.labels(error.type).inc()
            raise
        except (asyncio.CancelledError, GeneratorExit):
            status = CLIENT_LEFT
            raise
        finally:
            in_flight.dec()
            self._requests.labels(pool, route, status).inc()
            self._duration.labels(pool, route).observe(self._clock.now() - timer.began)

    def exposition(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self._registry)


class RequestTimer:
    """Times one request."""

    def __init__(self, clock: Clock, ttft: Histogram) -> None:
        self._clock = clock
        self._ttft = ttft
        self._waiting = True
        self.began = clock.now()

    def chunk(self) -> None:
        """A part of the answer has come; only the first one counts."""
        if self._waiting:
            self._waiting = False
            self._ttft.observe(self._clock.now() - self.began)


class _ReplicaCollector(Collector):
    """The replicas' states, read when asked for."""

    def __init__(self, pools: Mapping[str, Pool]) -> None:
        self._pools = pools

    def collect(self) -> Iterator[Metric]:
        states = GaugeMetricFamily("forebay_replicas", "Replicas by state.", labels=["pool", "state"])
        outstanding = GaugeMetricFamily(
            "forebay_replica_outstanding_requests", "Requests that a replica is serving.", labels=["pool", "replica"]
        )
        restarts = CounterMetricFamily(
            "forebay_replica_restarts", "Times that a replica was started again.", labels=["pool", "replica"]
        )
        for name, pool in self._pools.items():
            replicas = pool.snapshots()
            for state, count in Tally(describe(replica) for replica in replicas).items():
                states.add_metric([name, state], count)
            for replica in replicas:
                outstanding.add_metric([name, replica.name], replica.outstanding)
                restarts.add_metric([name, replica.name], replica.restarts)
        return iter((states, outstanding, restarts))
