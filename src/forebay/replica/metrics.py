"""What `/metrics` tells, by vLLM's names."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from forebay.core.clock import Clock
from forebay.engine.request import GenerationUpdate
from forebay.engine.service import EngineStats

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_LATENCY_BUCKETS_S = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
_TOKEN_BUCKETS_S = (
    *(0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
_REQUEST_BUCKETS_S = (
    *(0.1, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)


class ReplicaMetrics:
    """The numbers of one replica, in a registry of their own."""

    def __init__(self, model_name: str, stats: Callable[[], EngineStats], clock: Clock) -> None:
        self._clock = clock
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_EngineCollector(model_name, stats))

        def histogram(name: str, what: str, buckets: tuple[float, ...]) -> Histogram:
            made = Histogram(name, what, ["model_name"], buckets=buckets, registry=self._registry)
            return made.labels(model_name)

        self._time_to_first_token = histogram(
            "vllm:time_to_first_token_seconds", "From a request's arrival to its first token.", _LATENCY_BUCKETS_S
        )
        self._inter_token_latency = histogram(
            "vllm:inter_token_latency_seconds", "From one token of a request to the next.", _TOKEN_BUCKETS_S
        )
        self._e2e_request_latency = histogram(
            "vllm:e2e_request_latency_seconds", "From a request's arrival to its last token.", _REQUEST_BUCKETS_S
        )
        success = Counter(
            "vllm:request_success",
            "Requests that ended without an error, by why they ended.",
            ["model_name", "finished_reason"],
            registry=self._registry,
        )
        self._success = {reason: success.labels(model_name, reason) for reason in ("stop", "length", "abort")}

    def text(self) -> bytes:
        """All of them in Prometheus' text format."""
        return generate_latest(self._registry)

    async def watch(
        self, updates: AsyncGenerator[GenerationUpdate, None], arrived: float
    ) -> AsyncGenerator[GenerationUpdate, None]:
        """Pass the updates of one generation on, and note when each came. `arrived` is the clock's."""
        last: float | None = None
        finished = False
        try:
            async with aclosing(updates):
                async for update in updates:
                    now = self._clock.now()
                    if last is None:
                        self._time_to_first_token.observe(now - arrived)
                    elif update.token_ids:
                        self._inter_token_latency.observe((now - last) / len(update.token_ids))
                    last = now
                    if update.finish_reason is not None:
                        finished = True
                        self._e2e_request_latency.observe(now - arrived)
                        self._success[update.finish_reason].inc()
                    yield update
        except (GeneratorExit, asyncio.CancelledError):
            if not finished:
                self._success["abort"].inc()
            raise


class _EngineCollector(Collector):
    """Reads the engine's own counts when they are asked for."""

    def __init__(self, model_name: str, stats: Callable[[], EngineStats]) -> None:
        self._model_name = model_name
        self._stats = stats

    def collect(self) -> Iterator[Metric]:
        stats = self._stats()
        used = stats.used_blocks / stats.total_blocks if stats.total_blocks else 0.0
        yield self._gauge("vllm:num_requests_running", "Requests in the running batch.", stats.running)
        yield self._gauge("vllm:num_requests_waiting", "Requests waiting for their turn.", stats.waiting)
        yield self._gauge("vllm:kv_cache_usage_perc", "Part of the KV blocks in use, from 0 to 1.", used)
        yield self._counter("vllm:num_preemptions", "Times that a request gave up its slot.", stats.preemptions_total)
        yield self._counter("vllm:prompt_tokens", "Prompt tokens, cached ones included.", stats.prompt_tokens_total)
        yield self._counter("vllm:generation_tokens", "Tokens generated.", stats.generation_tokens_total)
        yield self._counter(
            "vllm:prefix_cache_queries", "Prompt tokens looked up in the prefix cache.", stats.prompt_tokens_total
        )
        yield self._counter(
            "vllm:prefix_cache_hits", "Prompt tokens found in the prefix cache.", stats.cached_prompt_tokens_total
        )
        yield self._counter(
            "vllm:spec_decode_num_draft_tokens", "Guessed tokens that were tried.", stats.draft_tokens_total
        )
        yield self._counter(
            "vllm:spec_decode_num_accepted_tokens",
            "Guessed tokens that were right.",
            stats.accepted_draft_tokens_total,
        )

    def _gauge(self, name: str, what: str, value: float) -> Metric:
        family = GaugeMetricFamily(name, what, labels=["model_name"])
        family.add_metric([self._model_name], value)
        return family

    def _counter(self, name: str, what: str, value: float) -> Metric:
        family = CounterMetricFamily(name, what, labels=["model_name"])
        family.add_metric([self._model_name], value)
        return family
