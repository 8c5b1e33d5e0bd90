"""The engine's face to asyncio, over the fake runner."""

import asyncio
from collections.abc import Callable
from threading import Event

import pytest

from forebay.core.clock import SystemClock
from forebay.core.errors import CapacityUnavailable, InternalError, InvalidRequest
from forebay.engine.request import GenerationRequest, Grammar, SamplingParams
from forebay.engine.service import AsyncEngine
from tests.support.fake_runner import VOCAB
from tests.unit.test_engine_generation import FixedGrammar, make_core, only


class HeldCompiler:
    """Compiles when it is let go."""

    def __init__(self) -> None:
        self.began, self.go = Event(), Event()

    def compile(self, grammar: Grammar) -> FixedGrammar:
        self.began.set()
        assert self.go.wait(10)
        return FixedGrammar([only(1)])

    def close(self) -> None:
        pass


def request(*tokens: int, grammar: Grammar | None = None) -> GenerationRequest:
    return GenerationRequest("r", tokens, SamplingParams(max_tokens=3, temperature=0.0, grammar=grammar))


async def said(engine: AsyncEngine, asked: GenerationRequest) -> list[int]:
    return [token async for update in engine.generate(asked) for token in update.token_ids]


def with_engine(use: Callable[[AsyncEngine, HeldCompiler], object]) -> None:
    compiler = HeldCompiler()
    engine = AsyncEngine(make_core(), compiler, SystemClock(), 100)  # pyright: ignore[reportArgumentType]
    try:
        asyncio.run(asyncio.wait_for(use(engine, compiler), 5))  # pyright: ignore[reportArgumentType]
    finally:
        compiler.go.set()
        engine.close()


@pytest.mark.parametrize("end", ["close", "drain"])
def test_who_waits_for_a_grammar_is_not_forgotten_at_the_end(end: str):
    async def use(engine: AsyncEngine, compiler: HeldCompiler) -> None:
        waiting = asyncio.create_task(said(engine, request(1, 2, grammar=Grammar("regex", "x"))))
        await asyncio.to_thread(compiler.began.wait, 5)
        if end == "close":
            engine.close()
            compiler.go.set()
            with pytest.raises(CapacityUnavailable):
                await waiting
        else:
            draining = asyncio.create_task(engine.drain(5))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not draining.done()
            compiler.go.set()
            await draining
            assert await waiting == [1]

    with_engine(use)


def test_a_token_that_the_model_does_not_have_is_refused():
    async def use(engine: AsyncEngine, _: HeldCompiler) -> None:
        assert len(await said(engine, request(VOCAB - 1))) == 3
        with pytest.raises(InvalidRequest):
            await said(engine, request(VOCAB))

    with_engine(use)


def test_nothing_is_kept_of_what_has_ended():
    async def use(engine: AsyncEngine, _: HeldCompiler) -> None:
        for _ in range(3):
            await said(engine, request(1, 2))
        stats = engine.stats()
        assert (stats.prompt_tokens_total, stats.generation_tokens_total, stats.draft_tokens_total) == (6, 9, 0)
        assert engine._loop._generations == engine._loop._keys == engine._streams == {}

    with_engine(use)


def test_an_engine_that_breaks_ends_all_with_that():
    class Broken(BaseException):
        """As a library raises it that was written in another language."""

    async def use(engine: AsyncEngine, compiler: HeldCompiler) -> None:
        def breaks(*_: object) -> None:
            raise Broken

        engine._core.runner.run = breaks  # pyright: ignore[reportAttributeAccessIssue]
        waiting = asyncio.create_task(said(engine, request(1, 2, grammar=Grammar("regex", "x"))))
        await asyncio.to_thread(compiler.began.wait, 5)
        for _ in range(2):
            with pytest.raises(InternalError):
                await said(engine, request(1, 2))
        assert not engine.healthy
        compiler.go.set()
        with pytest.raises(InternalError):
            await waiting

    with_engine(use)


def test_more_tokens_than_there_is_room_for_cannot_be_the_least():
    async def use(engine: AsyncEngine, _: HeldCompiler) -> None:
        asked = GenerationRequest("r", (1, 2), SamplingParams(min_tokens=99))
        with pytest.raises(InvalidRequest, match="min_tokens: 99 is more than may be generated, 98"):
            await said(engine, asked)

    with_engine(use)
