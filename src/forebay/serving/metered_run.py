"""One request from its reservation to its usage record, whichever way it ends."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

import structlog

from forebay.core.clock import Clock
from forebay.core.errors import StoreUnavailable
from forebay.fleet.pool import Lease, Pool
from forebay.fleet.replica import Endpoint
from forebay.metering.closing import closed
from forebay.metering.pricing import cost_nanos
from forebay.metering.usage import NOTHING, Counted, OpenedUsage, TokenUsage, UsageLog, UsageRecord, UsageStatus
from forebay.serving.admission import Admission, Admitted
from forebay.serving.rate_limit_headers import rate_limit_headers
from forebay.serving.request import InferenceRequest
from forebay.tenancy.reservation.heartbeat import Heartbeat
from forebay.tenancy.reservation.lease import UNUSED, ReservationStore, Used

logger = structlog.get_logger(__name__)


class RunObserver(Protocol):
    """Whoever must know what became of each run."""

    async def ended(self, request: InferenceRequest, record: UsageRecord | None) -> None:
        """Called once it is settled, before its caller has the end of its answer. No record: it was turned away."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """Where runs are reserved and written down. `unix_time` gives seconds."""

    admission: Admission
    reservations: ReservationStore
    heartbeat: Heartbeat
    log: UsageLog
    observers: Sequence[RunObserver]
    clock: Clock
    unix_time: Callable[[], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ended, and with what usage. With `turned_away` it never ran: it costs nothing and does not count."""

    status: UsageStatus
    http_status: int
    tokens: TokenUsage
    counted: Counted
    turned_away: bool = False


class MeteredRun:
    """Reserved once, opened once, ended once. All its calls come from one task, or from the one that it was left to."""

    def __init__(self, request: InferenceRequest, pool: Pool, model_version: str, books: Books) -> None:
        self.request = request
        self._pool = pool
        self._model_version = model_version
        self._books = books
        self._admitted: Admitted | None = None
        self._opened: OpenedUsage | None = None
        self._reserving = False
        self._held = 0
        self._alive = ExitStack()
        self._dispatched_at: float | None = None
        self._first_at: float | None = None
        self._last_at: float | None = None
        self._replica: str | None = None
        self.endpoint: Endpoint | None = None
        """Of the replica that has it."""
        self.tokens: TokenUsage | None = None
        """The last that was seen of it."""
        self._ending: Ending | None = None
        self.ended = False

    async def begin(self) -> Admitted:
        """Hold the lease and open the record. Raises what refuses the request; `end` it then, too."""
        sized = await self._books.admission.size(self.request, self._pool)
        self._reserving = True
        self._admitted = admitted = await self._books.admission.reserve(self.request, sized)
        self._held = admitted.granted.output_tokens
        self._alive.enter_context(self._books.heartbeat.hold(self.request.id))
        opened = self._opening(admitted)
        await self._books.log.open(opened)
        self._opened = opened
        return admitted

    @property
    def headers(self) -> dict[str, str]:
        """For whatever answer the caller gets."""
        if self._admitted is None:
            return {}
        return rate_limit_headers(self._admitted.granted.requests, self._admitted.granted.tokens)

    @property
    def prompt_tokens(self) -> int:
        """By our own count."""
        return self._opened.prompt_tokens if self._opened is not None else 0

    def dispatched(self, lease: Lease) -> None:
        """It is on its way to a replica."""
        self._replica, self.endpoint = lease.replica.name, lease.endpoint
        self._dispatched_at = self._books.clock.now()
        self._books.log.seen(self.request.id, NOTHING, lease.replica.name)

    def came_back(self) -> None:
        """That replica has not seen it."""
        self._replica = self.endpoint = self._dispatched_at = None

    def progress(self, tokens: TokenUsage) -> None:
        """So much of it is done."""
        now = self._books.clock.now()
        if tokens.output_tokens > 0:
            self._first_at = now if self._first_at is None else self._first_at
            self._last_at = now
        self.tokens = tokens
        assert self._replica is not None, "what makes progress runs somewhere"
        self._books.log.seen(self.request.id, tokens, self._replica)
        self._books.heartbeat.seen(self.request.id, self._used(tokens))

    async def covers(self, output_tokens: int) -> bool:
        """Whether the lease covers so many output tokens, if need be after taking more."""
        lacking = output_tokens - self._held
        if lacking <= 0:
            return True
        more = max(lacking, self._held // 2)
        accounts = self._books.admission.accounts(self.request)
        self._held += await self._books.reservations.extend(self.request.id, accounts, lacking, more)
        return output_tokens <= self._held

    @property
    def ending(self) -> Ending | None:
        """The one that counts, from when `end` was first called."""
        return self._ending

    async def end(self, ending: Ending) -> None:
        """Settle the lease and close the record, by the first ending that is given; once, however often it is called.

        Where it is cancelled the run has not `ended`: call it again, which does what is left.
        """
        if self.ended:
            return
        if self._ending is None:
            self._ending = ending
            self.tokens = ending.tokens
        ending = self._ending
        # The counters first: what they say was spent is then never less than what the books say, which tell them what
        # they have forgotten.
        if self._reserving:
            await self._settle(ending)
        record = None if self._opened is None else self._record(self._opened, ending)
        if record is not None:
            await self._books.log.close(record)
        for observer in self._books.observers:
            await observer.ended(self.request, None if ending.turned_away else record)
        self.ended = True

    async def turn_away(self, http_status: int) -> None:
        """End what was never run."""
        await self.end(
            Ending(status="failed", http_status=http_status, tokens=NOTHING, counted="last_seen", turned_away=True)
        )

    async def _settle(self, ending: Ending) -> None:
        used = UNUSED if ending.turned_away else self._used(ending.tokens)
        self._alive.close()
        try:
            await self._books.reservations.settle(self.request.id, used)
        except StoreUnavailable as error:
            # It expires there by itself, with what was last seen of it.
            logger.warning("lease not settled", id=self.request.id, detail=error.detail)
        self._reserving = False
        if not ending.turned_away and self._admitted is not None and ending.status == "completed":
            self._books.admission.learn(self.request, self._admitted.admissible, ending.tokens.output_tokens)

    def _used(self, tokens: TokenUsage) -> Used:
        assert self._admitted is not None, "only what holds a lease uses anything"
        nanos = cost_nanos(self._admitted.admissible.terms, tokens)
        return Used(tokens=tokens.prompt_tokens + tokens.output_tokens, nanos=nanos)

    def _opening(self, admitted: Admitted) -> OpenedUsage:
        request, sized = self.request, admitted.admissible
        return OpenedUsage(
            id=request.id,
            request_id=request.request_id,
            tenant=request.principal.tenant_id,
            key=request.principal.key_id,
            tags=dict(request.principal.tags),
            alias=request.alias,
            model_version=self._model_version,
            pool=self._pool.name,
            priority=request.priority,
            route=request.entrance,
            stream=request.stream,
            opened_at=self._books.unix_time(),
            prompt_tokens=sized.prompt.tokens,
            fallback=False,
            idempotency_hash=None if request.repeat is None else request.repeat.digest,
            price_version=sized.terms.version,
            prompt_nanos_per_million=sized.terms.prompt_nanos_per_million,
            cached_nanos_per_million=sized.terms.cached_nanos_per_million,
            output_nanos_per_million=sized.terms.output_nanos_per_million,
        )

    def _record(self, opened: OpenedUsage, ending: Ending) -> UsageRecord:
        spread = ending.tokens.output_tokens - 1
        between = None
        if self._first_at is not None and self._last_at is not None and spread > 0 and self._last_at > self._first_at:
            between = (self._last_at - self._first_at) / spread
        return closed(
            opened,
            ending.tokens,
            ended_at=self._books.unix_time(),
            status=ending.status,
            http_status=ending.http_status,
            counted=ending.counted,
            replica=self._replica,
            ttft_s=self._since_arrival(self._first_at),
            tpot_s=between,
            queue_wait_s=self._since_arrival(self._dispatched_at),
        )

    def _since_arrival(self, at: float | None) -> float | None:
        return None if at is None else at - self.request.arrived
