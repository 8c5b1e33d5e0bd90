"""`Idempotency-Key`: a request that is sent again does not run again."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

import msgspec
import structlog

from forebay.core.errors import CapacityUnavailable, RequestRepeated, StoreUnavailable
from forebay.fleet.pool import Pool
from forebay.serving.repeat_book import AnswerShelf, FirstRequest, RepeatBook
from forebay.serving.repeat_notes import running_since
from forebay.serving.request import InferenceRequest, Repeat
from forebay.serving.shared_run import AnyAnswer, KeptAnswer, SharedRun, anew

logger = structlog.get_logger(__name__)

LINGER_S = 5.0
"""How long a run goes on when all its callers have left, for one of them to come back."""
IN_PROGRESS_RETRY_S = 1.0
IDEMPOTENCY_HEADER = "Idempotency-Key"
REPLAYED_HEADER = "Idempotent-Replayed"

Serve = Callable[[InferenceRequest, Pool], AbstractAsyncContextManager[AnyAnswer]]

_kept = msgspec.msgpack.Decoder(KeptAnswer)


@dataclass(frozen=True, slots=True)
class _Live:
    run: SharedRun
    fingerprint: str


class Repeats:
    """Lets each request with a key run once: later ones join it while it runs, and are told of it afterwards."""

    def __init__(
        self, serve: Serve, book: RepeatBook, shelf: AnswerShelf, ttl_s: float, unix_time: Callable[[], float]
    ) -> None:
        self._serve = serve
        self._book = book
        self._shelf = shelf
        self._ttl_s = ttl_s
        self._unix_time = unix_time
        self._live: dict[str, _Live] = {}
        self._claims: dict[str, asyncio.Task[FirstRequest | Exception | None]] = {}
        self._tasks: asyncio.TaskGroup | None = None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Requests can be served from here on; on leaving, whatever still runs is ended."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                self._tasks = None
                self.stop()

    def stop(self) -> None:
        """End all that run now."""
        for live in self._live.values():
            live.run.stop()

    @asynccontextmanager
    async def serve(self, request: InferenceRequest, pool: Pool) -> AsyncGenerator[AnyAnswer]:
        """As `InferenceService.serve`. Raises RequestRepeated and StoreUnavailable, too."""
        if request.repeat is None:
            async with self._serve(request, pool) as answer:
                yield answer
            return
        first = await self._first(request, request.repeat, pool)
        if isinstance(first, FirstRequest):
            yield await self._told(request, request.repeat, first)
            return
        if first.fingerprint != request.repeat.fingerprint:
            raise _other_request()
        with first.run.reading() as answer:
            await answer.begun()
            yield answer

    async def _first(self, request: InferenceRequest, repeat: Repeat, pool: Pool) -> _Live | FirstRequest:
        """The run of the first with this key, where it runs here: `request` itself, if there is none. Else what is
        known of it.
        """
        digest = repeat.digest
        while (live := self._live.get(digest)) is None:
            if (claim := self._claims.get(digest)) is None:
                assert self._tasks is not None, "requests are served while it is running"
                # In a task of its own: whoever leaves meanwhile must not leave a claim of a run that never begins.
                self._claims[digest] = claim = self._tasks.create_task(self._claim(request, repeat, pool))
            await asyncio.wait((claim,))
            first = claim.result()
            if isinstance(first, Exception):
                raise anew(first)
            if first is not None:
                return first
        return live

    async def _claim(self, request: InferenceRequest, repeat: Repeat, pool: Pool) -> FirstRequest | Exception | None:
        """Write it down as the first and start it; else what is there, or why that cannot be known."""
        mine = running_since(request, repeat, self._unix_time())
        try:
            first = await self._book.claim(repeat.digest, mine, self._ttl_s)
            # A claim whose answer was lost was sent again, and finds itself.
            first = None if first == mine else first
            if first is None and self._tasks is None:
                await self._book.release(repeat.digest)
                return CapacityUnavailable("This gateway is stopping; send the request again.", retry_after_s=1.0)
        except Exception as error:
            return error
        finally:
            del self._claims[repeat.digest]
        if first is None:
            self._start(request, repeat, pool)
        return first

    async def _told(self, request: InferenceRequest, repeat: Repeat, first: FirstRequest) -> AnyAnswer:
        """The answer that was kept. Raises RequestRepeated where none was."""
        if first.fingerprint and first.fingerprint != repeat.fingerprint:
            raise _other_request()
        if first.state == "running":
            raise _not_ended(first, alive=first.alive_until > self._unix_time())
        if request.principal.replay_outputs:
            kept = await self._shelf.get(request.principal.tenant_id, repeat.digest)
            if kept is not None:
                return _Replayed(_kept.decode(kept))
        raise _ended(first)

    def _start(self, request: InferenceRequest, repeat: Repeat, pool: Pool) -> None:
        assert self._tasks is not None, "requests are served while it is running"
        live = _Live(SharedRun(lambda: self._serve(request, pool), stream=request.stream), repeat.fingerprint)
        self._live[repeat.digest] = live
        self._tasks.create_task(self._run(request, repeat, live.run))

    async def _run(self, request: InferenceRequest, repeat: Repeat, run: SharedRun) -> None:
        try:
            await run.run_while_read(LINGER_S)
            if request.principal.replay_outputs and run.answer is not None:
                await self._shelf.put(request.principal.tenant_id, repeat.digest, msgspec.msgpack.encode(run.answer))
        except StoreUnavailable as error:
            logger.warning("answer not kept for repeats", id=request.id, detail=error.detail)
        finally:
            self._live.pop(repeat.digest, None)


class _Replayed:
    """An answer that was kept. How its caller stood with its quotas then is of no use now."""

    def __init__(self, kept: KeptAnswer) -> None:
        self._kept = kept

    @property
    def headers(self) -> dict[str, str]:
        return {REPLAYED_HEADER: "true"}

    async def whole(self) -> bytes:
        return self._kept.parts[0]

    async def events(self) -> AsyncGenerator[bytes]:
        for part in self._kept.parts:
            yield part


def _other_request() -> RequestRepeated:
    return RequestRepeated(
        "This Idempotency-Key was used with another request; send each request with a key of its own.",
        param=IDEMPOTENCY_HEADER,
        should_retry=False,
    )


def _not_ended(first: FirstRequest, *, alive: bool) -> RequestRepeated:
    if alive:
        return RequestRepeated(
            f"The request {first.request_id} with this Idempotency-Key is still running elsewhere; ask again shortly.",
            param=IDEMPOTENCY_HEADER,
            retry_after_s=IN_PROGRESS_RETRY_S,
            should_retry=True,
        )
    return RequestRepeated(
        f"The request {first.request_id} with this Idempotency-Key was interrupted and is not run again; send it "
        "with a new key.",
        param=IDEMPOTENCY_HEADER,
        should_retry=False,
    )


def _ended(first: FirstRequest) -> RequestRepeated:
    return RequestRepeated(
        f"The request {first.request_id} with this Idempotency-Key has ended, and its answer was not kept; it was "
        "billed once. To run it again, send it with a new key.",
        param=IDEMPOTENCY_HEADER,
        should_retry=False,
        members={"usage": first.usage},
    )
