"""One request a key, whoever asks, leaves and comes back; the book's own answers may be late or lost."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from forebay.core.errors import (
    CapacityUnavailable,
    RequestRepeated,
    StoreUnavailable,
    TokenRateExceeded,
)
from forebay.fleet.pool import Pool
from forebay.serving.repeat_book import FirstRequest
from forebay.serving.repeats import REPLAYED_HEADER, Repeats
from forebay.serving.request import InferenceRequest, Repeat
from forebay.storage.counters.repeats import MemoryRepeats
from forebay.tenancy.principal import Principal

NOW = 1_700_000_000.0
POOL = Pool("p", [], exact_fields=True)
ACME = Principal(
    tenant_id="acme",
    key_id="k",
    scopes=frozenset({"inference"}),
    default_class="standard",
    allowed_classes=frozenset({"standard"}),
)


def asked(key: str = "one", body: bytes = b"{}", *, stream: bool = False, replay: bool = False) -> InferenceRequest:
    return InferenceRequest(
        id="req-1",
        request_id="mine",
        entrance="chat/completions",
        route="chat/completions",
        alias="chat",
        stream=stream,
        body=body,
        principal=replace(ACME, replay_outputs=replay),
        priority="standard",
        arrived=0.0,
        repeat=Repeat.of("acme", key, "chat/completions", body),
    )


class Said:
    headers: Mapping[str, str] = {"x-ratelimit-limit-tokens": "7"}

    def __init__(self, gate: asyncio.Event) -> None:
        self._gate = gate

    async def whole(self) -> bytes:
        await self._gate.wait()
        return b"whole"

    async def events(self) -> AsyncGenerator[bytes]:
        yield b"a"
        await self._gate.wait()
        yield b"b"


class Runs:
    """Serves; counts how often, and waits for `gate` in the middle."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.begun = 0
        self.has_begun = asyncio.Event()
        self.ended = 0
        self.refuse = False

    @asynccontextmanager
    async def serve(self, request: InferenceRequest, pool: Pool) -> AsyncGenerator[Said]:
        self.begun += 1
        self.has_begun.set()
        if self.refuse:
            raise TokenRateExceeded("no", retry_after_s=2.0, headers={"a": "b"})
        try:
            yield Said(self.gate)
        finally:
            self.ended += 1


class SlowBook(MemoryRepeats):
    """Answers late, as one that is asked over a network does."""

    async def claim(self, digest: str, first: FirstRequest, ttl_s: float) -> FirstRequest | None:
        found = await super().claim(digest, first, ttl_s)
        await asyncio.sleep(0.01)
        return found


class ClaimedBook(MemoryRepeats):
    """Tells when it was asked."""

    def __init__(self, unix_time: Callable[[], float]) -> None:
        super().__init__(unix_time)
        self.claimed = asyncio.Event()

    async def claim(self, digest: str, first: FirstRequest, ttl_s: float) -> FirstRequest | None:
        self.claimed.set()
        return await super().claim(digest, first, ttl_s)


class ForgetfulBook(MemoryRepeats):
    """The answer to its first claim is lost, so that it is asked again."""

    async def claim(self, digest: str, first: FirstRequest, ttl_s: float) -> FirstRequest | None:
        await super().claim(digest, first, ttl_s)
        return await super().claim(digest, first, ttl_s)


class DeadBook(MemoryRepeats):
    async def claim(self, digest: str, first: FirstRequest, ttl_s: float) -> FirstRequest | None:
        await asyncio.sleep(0.01)
        raise StoreUnavailable("gone", retry_after_s=1.0)


class Shelf:
    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.filled = asyncio.Event()

    async def put(self, tenant_id: str, digest: str, answer: bytes) -> None:
        self.kept[digest] = answer
        self.filled.set()

    async def get(self, tenant_id: str, digest: str) -> bytes | None:
        return self.kept.get(digest)


def repeats_of(runs: Runs, book: MemoryRepeats | None = None, shelf: Shelf | None = None) -> Repeats:
    return Repeats(runs.serve, book or SlowBook(lambda: NOW), shelf or Shelf(), 60.0, lambda: NOW)


async def whole(repeats: Repeats, request: InferenceRequest) -> bytes:
    async with repeats.serve(request, POOL) as answer:
        return await answer.whole()


async def streamed(repeats: Repeats, request: InferenceRequest) -> bytes:
    async with repeats.serve(request, POOL) as answer:
        return b"".join([part async for part in answer.events()])


def test_all_that_come_at_once_are_one_run() -> None:
    async def run() -> None:
        runs = Runs()
        repeats = repeats_of(runs)
        async with repeats.running(), asyncio.TaskGroup() as tasks:
            asking = [tasks.create_task(whole(repeats, asked())) for _ in range(5)]
            await asyncio.sleep(0.03)
            late = tasks.create_task(whole(repeats, asked()))
            runs.gate.set()
        assert {task.result() for task in [*asking, late]} == {b"whole"}
        assert runs.begun == 1

    asyncio.run(run())


def test_who_leaves_during_the_claim_leaves_a_run_that_others_join() -> None:
    """Nobody is told that it runs elsewhere."""

    async def run() -> None:
        runs = Runs()
        repeats = repeats_of(runs)
        async with repeats.running():
            first = asyncio.create_task(streamed(repeats, asked(stream=True)))
            await asyncio.sleep(0)
            first.cancel()
            await asyncio.wait((first,))
            again = asyncio.create_task(streamed(repeats, asked(stream=True)))
            await asyncio.sleep(0.05)
            runs.gate.set()
            assert await again == b"ab"
        assert (runs.begun, runs.ended) == (1, 1)

    asyncio.run(run())


def test_a_claim_whose_answer_was_lost_finds_itself() -> None:
    async def run() -> None:
        runs = Runs()
        runs.gate.set()
        repeats = repeats_of(runs, ForgetfulBook(lambda: NOW))
        async with repeats.running():
            assert await whole(repeats, asked()) == b"whole"

    asyncio.run(run())


def test_without_its_book_nothing_runs_and_all_are_told() -> None:
    async def run() -> None:
        runs = Runs()
        repeats = repeats_of(runs, DeadBook(lambda: NOW))
        async with repeats.running():
            told = await asyncio.gather(*(whole(repeats, asked()) for _ in range(3)), return_exceptions=True)
            assert [type(one) for one in told] == [StoreUnavailable] * 3
            assert runs.begun == 0

    asyncio.run(run())


def test_a_refusal_reaches_every_caller_whole_and_the_key_is_free_after_it() -> None:
    async def run() -> None:
        runs, book = Runs(), SlowBook(lambda: NOW)
        runs.refuse = True
        repeats = repeats_of(runs, book)
        async with repeats.running():
            told = await asyncio.gather(*(whole(repeats, asked()) for _ in range(2)), return_exceptions=True)
            for one in told:
                assert isinstance(one, TokenRateExceeded)
                assert (one.retry_after_s, one.headers) == (2.0, {"a": "b"})
            # Its observer does that.
            await book.release(Repeat.of("acme", "one", "chat/completions", b"{}").digest)
            runs.refuse = False
            runs.gate.set()
            assert await whole(repeats, asked()) == b"whole"

    asyncio.run(run())


@pytest.mark.parametrize(("alive_until", "should_retry"), [(NOW + 1, True), (NOW - 1, False)])
def test_one_that_runs_elsewhere_is_to_be_asked_for_again_while_that_lives(
    alive_until: float, should_retry: bool
) -> None:
    async def run() -> None:
        runs, book, request = Runs(), MemoryRepeats(lambda: NOW), asked()
        assert request.repeat is not None
        first = FirstRequest(
            request_id="other", fingerprint=request.repeat.fingerprint, state="running", alive_until=alive_until
        )
        await book.claim(request.repeat.digest, first, 60.0)
        repeats = repeats_of(runs, book)
        async with repeats.running():
            with pytest.raises(RequestRepeated, match="other") as refused:
                await whole(repeats, request)
            assert refused.value.should_retry is should_retry
            assert (refused.value.retry_after_s is not None) is should_retry
            with pytest.raises(RequestRepeated, match="another request"):
                await whole(repeats, asked(body=b'{"a":1}'))
        assert runs.begun == 0

    asyncio.run(run())


def test_a_kept_answer_is_told_again_without_how_one_stood_then() -> None:
    async def run() -> None:
        runs, book, shelf = Runs(), MemoryRepeats(lambda: NOW), Shelf()
        runs.gate.set()
        repeats = repeats_of(runs, book, shelf)
        request = asked(stream=True, replay=True)
        assert request.repeat is not None
        async with repeats.running():
            assert await streamed(repeats, request) == b"ab"
            async with asyncio.timeout(5):
                await shelf.filled.wait()
            await asyncio.sleep(0)
            ended = FirstRequest(request_id="mine", fingerprint="", state="ended", alive_until=NOW)
            await book.write(request.repeat.digest, ended, 60.0)
            async with repeats.serve(request, POOL) as answer:
                assert [part async for part in answer.events()] == [b"a", b"b"]
                assert answer.headers == {REPLAYED_HEADER: "true"}
            with pytest.raises(RequestRepeated, match="ended"):
                await streamed(repeats, asked(stream=True))
        assert runs.begun == 1

    asyncio.run(run())


def test_stopping_ends_what_runs() -> None:
    async def run() -> None:
        runs = Runs()
        repeats = repeats_of(runs)
        async with repeats.running():
            asking = asyncio.create_task(streamed(repeats, asked(stream=True)))
            await runs.has_begun.wait()
        (told,) = await asyncio.gather(asking, return_exceptions=True)
        assert isinstance(told, CapacityUnavailable)
        assert (runs.begun, runs.ended) == (1, 1)

    asyncio.run(run())


@pytest.mark.parametrize("steps", range(12))
def test_stopping_ends_a_run_however_far_it_has_come(steps: int) -> None:
    async def run() -> None:
        runs, book = Runs(), ClaimedBook(lambda: NOW)
        repeats = repeats_of(runs, book)
        async with repeats.running():
            asking = asyncio.create_task(streamed(repeats, asked(stream=True)))
            await book.claimed.wait()
            for _ in range(steps):
                await asyncio.sleep(0)
        (told,) = await asyncio.gather(asking, return_exceptions=True)
        assert isinstance(told, CapacityUnavailable)
        assert runs.begun == runs.ended

    asyncio.run(asyncio.wait_for(run(), 20))


def test_no_answer_is_kept_of_a_tenant_that_has_not_opted_in_to_that() -> None:
    async def run() -> None:
        runs, shelf, book = Runs(), Shelf(), MemoryRepeats(lambda: NOW)
        runs.gate.set()
        repeats = repeats_of(runs, book, shelf)
        async with repeats.running():
            assert await streamed(repeats, asked(stream=True)) == b"ab"
        assert shelf.kept == {}

    asyncio.run(run())
