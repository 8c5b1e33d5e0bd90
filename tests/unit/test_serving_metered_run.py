"""A run ends once, also where its end is cut off by a client that leaves."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from forebay.administration.snapshot import PlatformSnapshot
from forebay.core.clock import ManualClock
from forebay.fleet.pool import Pool
from forebay.metering.pricing import Price, PriceBook
from forebay.metering.usage import OpenedUsage, TokenUsage, UsageRecord, UsageStatus
from forebay.prompting.counting import PromptCount
from forebay.serving.admission import Admission
from forebay.serving.metered_run import Books, Ending, MeteredRun
from forebay.serving.request import InferenceRequest, Route
from forebay.storage.counters.memory import MemoryReservations
from forebay.tenancy.directory import Directory
from forebay.tenancy.principal import Principal
from forebay.tenancy.reservation.expected import OutputLengths
from forebay.tenancy.reservation.heartbeat import Heartbeat
from forebay.tenancy.reservation.lease import Used
from forebay.tenancy.resources import Quota, Tenant

USED = TokenUsage(prompt_tokens=10, cached_tokens=0, output_tokens=5)
OTHER = TokenUsage(prompt_tokens=10, cached_tokens=0, output_tokens=99)
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
CONFIGURED = PlatformSnapshot(
    change=1,
    directory=Directory([Tenant(id="team")], (), [Quota(id="team", tenant="team", concurrent_requests=1)]),
    prices=PriceBook(
        [Price(id="p1", prompt_usd_per_million=Decimal(1), output_usd_per_million=Decimal(2), effective_from=0.0)]
    ),
    prompts=(),
)


class TenTokens:
    """Counts every prompt as ten."""

    async def count(self, route: Route, body: bytes, platform_prompts: Sequence[str]) -> PromptCount:
        return PromptCount(tokens=10, public_prefix_tokens=0, prompts=1, exact=True)


class SlowReservations(MemoryReservations):
    """Counters whose first settlement takes until it is let go."""

    def __init__(self) -> None:
        super().__init__(lambda: 0, lambda: 0.0, 15.0)
        self.slow = asyncio.Event()
        self.settled: list[Used] = []

    async def settle(self, lease_id: str, used: Used) -> bool:
        await self.slow.wait()
        self.settled.append(used)
        return await super().settle(lease_id, used)


@dataclass
class Desk:
    """Stands in for the log and for an observer."""

    closed: list[UsageRecord] = field(default_factory=list[UsageRecord])
    told: list[UsageRecord | None] = field(default_factory=list[UsageRecord | None])

    async def open(self, opened: OpenedUsage) -> None:
        pass

    def seen(self, id_: str, tokens: TokenUsage, replica: str) -> None:
        pass

    async def close(self, record: UsageRecord) -> None:
        self.closed.append(record)

    async def ended(self, request: InferenceRequest, record: UsageRecord | None) -> None:
        self.told.append(record)


def run_of(desk: Desk, reservations: SlowReservations) -> MeteredRun:
    lengths = OutputLengths(16)
    books = Books(
        admission=Admission(lambda: CONFIGURED, {"pool": TenTokens()}, reservations, lengths, lambda: 0.0),
        reservations=reservations,
        heartbeat=Heartbeat(reservations, 5.0),
        log=desk,
        lengths=lengths,
        observers=(desk,),
        clock=ManualClock(),
        unix_time=lambda: 0.0,
    )
    return MeteredRun(REQUEST, Pool("pool", (), exact_fields=True), "model@1", books)


def ending(tokens: TokenUsage = USED, status: UsageStatus = "completed") -> Ending:
    return Ending(status=status, http_status=200, tokens=tokens, counted="engine")


def test_an_end_that_was_cut_off_goes_on_where_it_was() -> None:
    async def scenario() -> None:
        desk, reservations = Desk(), SlowReservations()
        run = run_of(desk, reservations)
        await run.begin()
        first = asyncio.create_task(run.end(ending()))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait((first,))
        assert (run.ended, desk.closed, desk.told) == (False, [], [])
        reservations.slow.set()
        await run.end(ending(OTHER, status="client_left"))
        assert run.ended
        assert run.ending == ending()
        assert [(record.status, record.output_tokens) for record in desk.closed] == [("completed", 5)]
        assert len(desk.told) == 1
        assert await reservations.outstanding(["team"]) == {"team": 0}

    asyncio.run(scenario())


def test_it_is_settled_and_closed_once() -> None:
    async def scenario() -> None:
        desk, reservations = Desk(), SlowReservations()
        reservations.slow.set()
        run = run_of(desk, reservations)
        await run.begin()
        await run.end(ending())
        await run.end(ending(OTHER))
        assert [used.tokens for used in reservations.settled] == [15]
        assert [record.cost_nanos for record in desk.closed] == [1000 * (10 + 2 * 5)]
        assert desk.told == list(desk.closed)

    asyncio.run(scenario())


def test_what_was_turned_away_costs_nothing() -> None:
    async def scenario() -> None:
        desk, reservations = Desk(), SlowReservations()
        reservations.slow.set()
        run = run_of(desk, reservations)
        await run.begin()
        await run.turn_away(503)
        assert reservations.settled == [Used(tokens=0, nanos=0, counts=False)]
        assert [(record.status, record.cost_nanos) for record in desk.closed] == [("failed", 0)]
        assert desk.told == [None]

    asyncio.run(scenario())
