"""One run, read by any number of callers."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Protocol

import msgspec

from forebay.core.errors import CapacityUnavailable, ForebayError


class AnyAnswer(Protocol):
    """What a caller reads; see `serving.answer.Answer`."""

    @property
    def headers(self) -> Mapping[str, str]: ...

    async def whole(self) -> bytes: ...

    def events(self) -> AsyncGenerator[bytes]: ...


class KeptAnswer(msgspec.Struct, frozen=True):
    """A whole answer as bytes: one body, or the events of a stream."""

    parts: list[bytes]
    headers: dict[str, str]


class SharedRun:
    """Runs `serve` in a task of its own and keeps all that comes of it, from the first part on."""

    def __init__(self, serve: Callable[[], AbstractAsyncContextManager[AnyAnswer]], *, stream: bool) -> None:
        self._serve = serve
        self._stream = stream
        self._parts: list[bytes] = []
        self._headers: dict[str, str] = {}
        self._error: Exception | None = None
        self._over = False
        self._news = asyncio.Event()
        self._readers = 0
        self._idle_since_check = False
        self._stopped = False
        self._task: asyncio.Task[None] | None = None

    @property
    def answer(self) -> KeptAnswer | None:
        """All of it, where it came to a good end."""
        return KeptAnswer(self._parts, self._headers) if self._over and self._error is None else None

    async def run_while_read(self, linger_s: float) -> None:
        """To the end, or until nobody has read for `linger_s`, or `stop` is called. Readers are told what fails."""
        try:
            async with asyncio.TaskGroup() as tasks:
                self._task = task = tasks.create_task(self._run())
                if self._stopped:
                    task.cancel()
                while not task.done():
                    await asyncio.wait((task,), timeout=linger_s)
                    if not self._readers and self._idle_since_check:
                        task.cancel()
                    self._idle_since_check = not self._readers
        finally:
            # A task that is cancelled before its first step cannot say so itself.
            if not self._over:
                self._end(CapacityUnavailable("This gateway has stopped; send the request again.", retry_after_s=1.0))

    def stop(self) -> None:
        """End it now, or as soon as it begins."""
        self._stopped = True
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            async with self._serve() as answer:
                self._headers = dict(answer.headers)
                if self._stream:
                    async for part in answer.events():
                        self._add(part)
                else:
                    self._add(await answer.whole())
        except Exception as error:
            self._end(error)
        else:
            self._end(None)

    def _end(self, error: Exception | None) -> None:
        self._error = error
        self._over = True
        self._tell()

    def _add(self, part: bytes) -> None:
        self._parts.append(part)
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    @contextmanager
    def reading(self) -> Generator["SharedAnswer"]:
        """One more reader, for as long as the block lasts."""
        self._readers += 1
        try:
            yield SharedAnswer(self)
        finally:
            self._readers -= 1

    async def part(self, index: int) -> bytes | None:
        """The `index`-th part, waiting for it; None beyond the last. Raises what ended the run."""
        while index >= len(self._parts) and not self._over:
            await self._news.wait()
        if index < len(self._parts):
            return self._parts[index]
        if self._error is not None:
            raise anew(self._error)
        return None

    @property
    def headers(self) -> Mapping[str, str]:
        """Once there is a part."""
        return self._headers


class SharedAnswer:
    """A reader's view of a shared run."""

    def __init__(self, run: SharedRun) -> None:
        self._run = run

    @property
    def headers(self) -> Mapping[str, str]:
        return self._run.headers

    async def begun(self) -> None:
        """Wait for the first part. Raises what ended the run before it."""
        await self._run.part(0)

    async def whole(self) -> bytes:
        return await self._run.part(0) or b""

    async def events(self) -> AsyncGenerator[bytes]:
        index = 0
        while (part := await self._run.part(index)) is not None:
            index += 1
            yield part


def anew(error: Exception) -> Exception:
    """The same for one more reader: an exception collects the frames of whoever raises it."""
    if not isinstance(error, ForebayError):
        return error
    return type(error)(
        error.detail,
        param=error.param,
        retry_after_s=error.retry_after_s,
        should_retry=error.should_retry,
        members=error.members,
        headers=error.headers,
    )
