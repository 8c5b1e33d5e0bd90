"""What a metered run needs, kept in memory: requests, counters, a log and an observer that remember all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import msgspec

from forebay.administration.snapshot import PlatformSnapshot
from forebay.core.clock import ManualClock
from forebay.fleet.pool import Lease, Pool
from forebay.fleet.replica import Endpoint, Replica
from forebay.metering.pricing import Price, PriceBook
from forebay.metering.usage import OpenedUsage, TokenUsage, UsageRecord
from forebay.prompting.counting import PromptCount
from forebay.serving.admission import Admission
from forebay.serving.metered_run import Books, MeteredRun
from forebay.serving.request import InferenceRequest, Route
from forebay.storage.counters.memory import MemoryReservations
from forebay.tenancy.directory import Directory
from forebay.tenancy.principal import Principal
from forebay.tenancy.reservation.expected import OutputLengths
from forebay.tenancy.reservation.heartbeat import Heartbeat
from forebay.tenancy.reservation.lease import Used
from forebay.tenancy.resources import Quota, Tenant

PROMPT_TOKENS = 10
EXPECTED = 16
ENDPOINT = Endpoint("http://h/v1", "inner", None, takes_priority=True, health_url="http://h/health", tells_usage=True)
REQUEST = InferenceRequest(
    id="r1",
    request_id="mine",
    entrance="chat/completions",
    route="chat/completions",
    alias="chat",
    stream=False,
    body=b'{"max_tokens": 50}',
    principal=Principal(
        tenant_id="team",
        key_id="k",
        scopes=frozenset({"inference"}),
        default_class="standard",
        allowed_classes=frozenset({"standard"}),
    ),
    priority="standard",
    arrived=0.0,
)


def asked(body: Mapping[str, Any], **more: Any) -> InferenceRequest:
    return replace(REQUEST, body=msgspec.json.encode(body), **more)


def configured(*quotas: Quota) -> PlatformSnapshot:
    """One dollar for a million prompt tokens, two for the output's."""
    price = Price(id="p1", prompt_usd_per_million=Decimal(1), output_usd_per_million=Decimal(2), effective_from=0.0)
    directory = Directory([Tenant(id="team")], (), quotas)
    return PlatformSnapshot(change=1, directory=directory, prices=PriceBook([price]), prompts=())


class TenTokens:
    """Counts every prompt as ten."""

    async def count(self, route: Route, body: bytes, platform_prompts: Sequence[str]) -> PromptCount:
        return PromptCount(tokens=PROMPT_TOKENS, public_prefix_tokens=0, prompts=1, exact=True)


class Reservations(MemoryReservations):
    """Counters that remember what was settled, and what was renewed with which usage."""

    def __init__(self) -> None:
        super().__init__(lambda: 0, lambda: 0.0)
        self.settled: list[Used] = []
        self.renewed: list[Mapping[str, Used]] = []

    async def settle(self, lease_id: str, used: Used) -> bool:
        self.settled.append(used)
        return await super().settle(lease_id, used)

    async def renew(self, seen: Mapping[str, Used]) -> None:
        self.renewed.append(seen)
        await super().renew(seen)


@dataclass
class Desk:
    """Stands in for the log and for an observer."""

    opened: list[OpenedUsage] = field(default_factory=list[OpenedUsage])
    closed: list[UsageRecord] = field(default_factory=list[UsageRecord])
    told: list[UsageRecord | None] = field(default_factory=list[UsageRecord | None])

    async def open(self, opened: OpenedUsage) -> None:
        self.opened.append(opened)

    def seen(self, id_: str, tokens: TokenUsage, replica: str) -> None:
        pass

    async def close(self, record: UsageRecord) -> None:
        self.closed.append(record)

    async def ended(self, request: InferenceRequest, record: UsageRecord | None) -> None:
        self.told.append(record)


class Bench:
    """Books over a desk and counters; runs of requests by them, under the quotas."""

    def __init__(self, *quotas: Quota, reservations: Reservations | None = None) -> None:
        snapshot = configured(*quotas)
        self.desk = Desk()
        self.reservations = reservations or Reservations()
        self.clock = ManualClock()
        self.lengths = OutputLengths(EXPECTED)
        self.heartbeat = Heartbeat(self.reservations, 5.0)
        self.books = Books(
            admission=Admission(lambda: snapshot, {"pool": TenTokens()}, self.reservations, self.lengths, lambda: 0.0),
            reservations=self.reservations,
            heartbeat=self.heartbeat,
            log=self.desk,
            observers=(self.desk,),
            clock=self.clock,
            unix_time=lambda: 0.0,
        )

    def run(self, request: InferenceRequest = REQUEST) -> MeteredRun:
        return MeteredRun(request, Pool("pool", (), exact_fields=True), "model@1", self.books)


def lease() -> Lease:
    return Lease(Replica("pool-0"), ENDPOINT)


def used(output: int, prompt: int = PROMPT_TOKENS) -> TokenUsage:
    return TokenUsage(prompt_tokens=prompt, cached_tokens=0, output_tokens=output)
