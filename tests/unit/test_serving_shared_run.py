"""One run and its readers: all read all of it, and it lasts as long as any of them, and a little longer."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

import pytest

from forebay.core.errors import CapacityUnavailable, UpstreamFailed
from forebay.serving.shared_run import SharedRun

LINGER_S = 0.02


class Counting:
    """Says 0, 1, 2 … each when it is let; `left` is set when it is ended before its time."""

    headers: Mapping[str, str] = {"h": "1"}

    def __init__(self, parts: int, fails: bool = False) -> None:
        self._parts = parts
        self._fails = fails
        self.steps = asyncio.Semaphore(0)
        self.left = False

    @asynccontextmanager
    async def serve(self) -> AsyncGenerator["Counting"]:
        try:
            yield self
        except BaseException:
            self.left = True
            raise

    async def whole(self) -> bytes:
        await self.steps.acquire()
        return b"whole"

    async def events(self) -> AsyncGenerator[bytes]:
        for number in range(self._parts):
            await self.steps.acquire()
            yield str(number).encode()
        if self._fails:
            raise UpstreamFailed("broke off", members={"m": 1})


async def read(run: SharedRun) -> bytes:
    with run.reading() as answer:
        await answer.begun()
        assert answer.headers == {"h": "1"}
        return b"".join([part async for part in answer.events()])


def test_each_reader_gets_all_whenever_it_comes() -> None:
    async def main() -> None:
        said = Counting(4)
        run = SharedRun(said.serve, stream=True)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(run.run_while_read(10))
            readers = [tasks.create_task(read(run))]
            for _ in range(4):
                said.steps.release()
                await asyncio.sleep(0.001)
                readers.append(tasks.create_task(read(run)))
        assert {reader.result() for reader in readers} == {b"0123"}
        assert run.answer is not None
        assert run.answer.parts == [b"0", b"1", b"2", b"3"]
        assert run.answer.headers == {"h": "1"}

    asyncio.run(main())


def test_each_reader_is_told_what_went_wrong_after_what_came_before() -> None:
    async def main() -> None:
        said = Counting(2, fails=True)
        run = SharedRun(said.serve, stream=True)
        said.steps.release()
        said.steps.release()
        errors: list[UpstreamFailed] = []
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(run.run_while_read(10))
            for _ in range(2):
                with run.reading() as answer:
                    parts = answer.events()
                    assert [await anext(parts), await anext(parts)] == [b"0", b"1"]
                    with pytest.raises(UpstreamFailed, match="broke off") as failed:
                        await anext(parts)
                    errors.append(failed.value)
        assert errors[0] is not errors[1]
        assert errors[1].members == {"m": 1}
        assert run.answer is None

    asyncio.run(main())


def test_it_ends_when_nobody_has_read_for_a_while() -> None:
    async def main() -> None:
        said = Counting(2)
        run = SharedRun(said.serve, stream=True)
        async with asyncio.timeout(5):
            await run.run_while_read(LINGER_S)
        assert said.left
        assert run.answer is None

    asyncio.run(main())


def test_it_goes_on_while_anybody_reads() -> None:
    async def main() -> None:
        said = Counting(2)
        run = SharedRun(said.serve, stream=True)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(run.run_while_read(LINGER_S))
            reader = tasks.create_task(read(run))
            await asyncio.sleep(5 * LINGER_S)
            assert not said.left
            said.steps.release()
            said.steps.release()
        assert reader.result() == b"01"

    asyncio.run(main())


def test_a_whole_answer_is_one_part() -> None:
    async def main() -> None:
        said = Counting(0)
        run = SharedRun(said.serve, stream=False)
        said.steps.release()
        with run.reading() as answer:
            await run.run_while_read(10)
            assert await answer.whole() == b"whole"

    asyncio.run(main())


def test_one_that_is_stopped_before_it_begins_is_over_at_once() -> None:
    async def main() -> None:
        said = Counting(2)
        run = SharedRun(said.serve, stream=True)
        run.stop()
        async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
            tasks.create_task(run.run_while_read(10))
            with run.reading() as answer, pytest.raises(CapacityUnavailable, match="has stopped"):
                await answer.begun()
        assert run.answer is None

    asyncio.run(main())
