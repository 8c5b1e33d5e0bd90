"""Several generations as one stream."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from forebay.core.errors import InternalError
from forebay.engine.request import GenerationUpdate

Updates = AsyncGenerator[GenerationUpdate, None]
Start = Callable[[], Updates]
"""Begins one generation."""
ChoiceUpdates = AsyncGenerator[tuple[int, GenerationUpdate], None]

MAX_PENDING_UPDATES = 64
"""How far the generations may run ahead of whoever reads them."""

_NO_REASON = "The engine ended this generation without saying why; send the request again."


async def merged(groups: Sequence[Sequence[Start]]) -> ChoiceUpdates:
    """The updates of all generations as they come, each with the number of its choice, until all have finished.

    A group is the generations of one prompt, and choices are numbered through all groups. The first of a group begins
    at once, the others with its first update: then the prefix cache has their prompt.

    One that fails ends all, and its error is raised. Closing the generator, or cancelling its task, ends all; when that
    returns, none is left.
    """
    if len(groups) == 1 and len(groups[0]) == 1:
        async with aclosing(groups[0][0]()) as only:
            async for update in only:
                yield 0, update
                if update.finish_reason is not None:
                    return
        raise InternalError(_NO_REASON)
    merging = _Merging()
    failure: Exception | None = None
    async with asyncio.TaskGroup() as tasks:
        merging.begin(tasks, groups)
        try:
            while merging.unfinished and failure is None:
                event = await merging.events.get()
                if isinstance(event, Exception):
                    failure = event
                else:
                    merging.unfinished -= event[1].finish_reason is not None
                    yield event
        except GeneratorExit:
            # Swallowed, as the task group would wrap it and hide from `aclose` that it was heeded.
            return
        finally:
            merging.end()
    if failure is not None:
        raise failure


class _Merging:
    """The tasks of several generations, and the queue into which they put what comes."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[tuple[int, GenerationUpdate] | Exception] = asyncio.Queue(MAX_PENDING_UPDATES)
        self.unfinished = 0
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self, tasks: asyncio.TaskGroup, groups: Sequence[Sequence[Start]]) -> None:
        for group in groups:
            self._run(tasks, self.unfinished, group[0], group[1:])
            self.unfinished += len(group)

    def end(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _run(self, tasks: asyncio.TaskGroup, index: int, start: Start, siblings: Sequence[Start] = ()) -> None:
        self._tasks.append(tasks.create_task(self._follow(tasks, index, start, siblings)))

    async def _follow(self, tasks: asyncio.TaskGroup, index: int, start: Start, siblings: Sequence[Start]) -> None:
        # An exception goes through the queue: raised here, it would make the group cancel its owner, who may be
        # somewhere else, at a `yield`.
        try:
            async with aclosing(start()) as updates:
                async for update in updates:
                    for number, sibling in enumerate(siblings, index + 1):
                        self._run(tasks, number, sibling)
                    siblings = ()
                    await self.events.put((index, update))
                    if update.finish_reason is not None:
                        return
            raise InternalError(_NO_REASON)
        except Exception as error:
            await self.events.put(error)
