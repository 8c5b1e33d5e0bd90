"""Several generations as one stream, however it ends."""

import asyncio
from collections.abc import Coroutine, Sequence
from contextlib import aclosing
from typing import Any

import pytest

from forebay.core.errors import CapacityUnavailable, InternalError
from forebay.engine.request import GenerationUpdate
from forebay.replica.choices import MAX_PENDING_UPDATES, Start, Updates, merged


def update(text: str, *, last: bool = False) -> GenerationUpdate:
    return GenerationUpdate(text, (1,), 3, 0, 1, "stop" if last else None)


class Stage:
    """Generations by name, and what happened to them."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.error: Exception | None = None

    def play(self, name: str, texts: Sequence[str], *, fails: bool = False, unsaid: bool = False) -> Start:
        """A generation that says `texts`, each only once the gate of its name (where there is one) is open."""

        async def run() -> Updates:
            self.log.append(f"{name} begins")
            try:
                for index, text in enumerate(texts):
                    if name in self.gates:
                        await self.gates[name].wait()
                    await asyncio.sleep(0)
                    yield update(text, last=index == len(texts) - 1 and not fails and not unsaid)
                if fails:
                    raise CapacityUnavailable("full")
            finally:
                self.log.append(f"{name} ends")

        return run

    @property
    def alive(self) -> set[str]:
        names = {line.partition(" ")[0] for line in self.log}
        return {name for name in names if self.log.count(f"{name} begins") != self.log.count(f"{name} ends")}


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run to the end; no task may be left over."""

    async def checked() -> None:
        async with asyncio.timeout(10):
            await main
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(checked())


async def collect(groups: Sequence[Sequence[Start]]) -> dict[int, str]:
    texts: dict[int, str] = {}
    async with aclosing(merged(groups)) as updates:
        async for index, each in updates:
            texts[index] = texts.get(index, "") + each.text
    return texts


def test_choices_are_numbered_through_all_groups() -> None:
    stage = Stage()

    async def main() -> None:
        groups = [[stage.play(name, [name, "!", "?"]) for name in group] for group in ("ab", "cd", "e")]
        assert await collect(groups) == {index: f"{name}!?" for index, name in enumerate("abcde")}

    run(main())
    assert not stage.alive


def test_siblings_begin_with_the_first_update_of_the_first_and_other_groups_at_once() -> None:
    stage = Stage()

    async def main() -> None:
        stage.gates["a"] = asyncio.Event()
        async with aclosing(
            merged([[stage.play("a", "xy"), stage.play("b", "xy")], [stage.play("c", "xy")]])
        ) as updates:
            assert (await anext(updates))[0] == 2
            assert (await anext(updates))[0] == 2
            assert stage.log[:2] == ["a begins", "c begins"]
            assert "b begins" not in stage.log
            stage.gates["a"].set()
            assert {index async for index, _ in updates} == {0, 1}

    run(main())


@pytest.mark.parametrize("siblings", [0, 3])
def test_leaving_in_the_middle_ends_all(siblings: int) -> None:
    stage = Stage()

    async def main() -> None:
        group = [stage.play(name, "x" * 1000) for name in "abcd"[: siblings + 1]]
        async with aclosing(merged([group])) as updates:
            for _ in range(2 * len(group)):
                await anext(updates)
            assert len(stage.alive) == len(group)
        assert not stage.alive
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(main())


@pytest.mark.parametrize("siblings", [0, 3])
def test_cancelling_whoever_waits_ends_all(siblings: int) -> None:
    stage = Stage()

    async def main() -> None:
        names = "abcd"[: siblings + 1]
        stage.gates = {name: asyncio.Event() for name in names}
        reading = asyncio.ensure_future(collect([[stage.play(name, "x")] for name in names]))
        for _ in range(10):
            await asyncio.sleep(0)
        assert stage.alive == set(names)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert not stage.alive

    run(main())


@pytest.mark.parametrize("siblings", [0, 3])
def test_one_that_fails_ends_all_with_its_own_error(siblings: int) -> None:
    stage = Stage()

    async def main() -> None:
        groups = [[stage.play("a", "xy", fails=True)], *([stage.play(name, "z" * 1000)] for name in "bcd"[:siblings])]
        with pytest.raises(CapacityUnavailable, match="full"):
            await collect(groups)
        assert not stage.alive

    run(main())


def test_one_that_fails_before_its_first_update_starts_no_sibling() -> None:
    stage = Stage()

    async def main() -> None:
        with pytest.raises(CapacityUnavailable):
            await collect([[stage.play("a", "", fails=True), stage.play("b", "x")]])

    run(main())
    assert stage.log == ["a begins", "a ends"]


@pytest.mark.parametrize("siblings", [0, 1])
def test_a_generation_that_ends_without_a_reason_is_an_error(siblings: int) -> None:
    stage = Stage()

    async def main() -> None:
        with pytest.raises(InternalError):
            await collect([[stage.play("a", "xy", unsaid=True)], *[[stage.play("b", "x")]] * siblings])

    run(main())


def test_generations_run_ahead_of_a_slow_reader_only_so_far() -> None:
    stage = Stage()
    made = 0

    async def counting() -> Updates:
        nonlocal made
        for index in range(10_000):
            made += 1
            yield update("x", last=index == 9_999)

    async def main() -> None:
        async with aclosing(merged([[counting], [stage.play("b", "x")]])) as updates:
            await anext(updates)
            for _ in range(10 * MAX_PENDING_UPDATES):
                await asyncio.sleep(0)
            assert made <= MAX_PENDING_UPDATES + 3

    run(main())
