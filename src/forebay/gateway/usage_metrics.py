"""What requests have used, as Prometheus' counters."""

from collections.abc import Iterable
from typing import get_args

from prometheus_client import CollectorRegistry, Counter

from forebay.metering.usage import Counted, UsageRecord
from forebay.serving.request import InferenceRequest


class UsageMetrics:
    """Counts each run once it has ended. Fits `RunObserver`."""

    def __init__(self, pools: Iterable[str], registry: CollectorRegistry) -> None:
        self._tokens = Counter(
            "forebay_tokens",
            "Tokens of requests that ended, as billed; those of kind cached are among the prompt's.",
            ["pool", "priority", "kind"],
            registry=registry,
        )
        self._counted = Counter(
            "forebay_usage_counted",
            "Requests that ended, by where their token counts are from.",
            ["pool", "counted"],
            registry=registry,
        )
        # An increase from nothing is none to whoever watches: all are there from the start.
        for pool in pools:
            for counted in get_args(Counted):
                self._counted.labels(pool, counted)

    async def ended(self, request: InferenceRequest, record: UsageRecord | None) -> None:
        if record is None:
            return
        self._counted.labels(record.pool, record.counted).inc()
        used = (("prompt", record.prompt_tokens), ("cached", record.cached_tokens), ("output", record.output_tokens))
        for kind, tokens in used:
            self._tokens.labels(record.pool, record.priority, kind).inc(tokens)
