"""Keeps content in the object store, beside the requests."""

import asyncio
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

import structlog

from forebay.core.errors import StoreUnavailable
from forebay.core.units import MIB
from forebay.serving.content_log import Content
from forebay.storage.content.document import document_of
from forebay.storage.content.places import content_path, put_private
from forebay.storage.content.redaction import Redact
from forebay.storage.content.settings import ContentSettings
from forebay.storage.objects.store import ObjectStore

WRITERS = 4
"""How many are written at once: the object store may be far away."""
OVERHEAD_BYTES = 1024
"""Of one content, beside what was said."""

logger = structlog.get_logger(__name__)


class ObjectContentLog:
    """A `ContentLog` whose queue is bounded in bytes. `keep` is called in the event loop's own thread.

    What does not fit, cannot be redacted or cannot be stored is dropped, counted in `dropped`, and logged by its id.
    """

    def __init__(self, objects: ObjectStore, settings: ContentSettings, redact: Redact | None = None) -> None:
        self._objects = objects
        self._redact = redact
        self._most_bytes = int(settings.queue_mb * MIB)
        self._drain_s = settings.drain_timeout_s
        self._queue: asyncio.Queue[Content] = asyncio.Queue()
        self._bytes = 0
        self._open = True
        self._overflowing = False
        self.stored = 0
        """How many were written."""
        self.dropped = 0
        """How many were not, whatever the reason."""

    def keep(self, content: Content) -> None:
        """Never waits and never raises."""
        if not self._open or self._bytes + _size(content) > self._most_bytes:
            self.dropped += 1
            if not self._overflowing:
                # Once, not for each: there may be thousands.
                logger.warning("content not kept: too much waits for the object store", id=content.id)
            self._overflowing = True
            return
        if self._overflowing:
            logger.info("content is kept again", dropped=self.dropped)
        self._overflowing = False
        self._bytes += _size(content)
        self._queue.put_nowait(content)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Content is written from here on; on leaving, what waits is, for the drain timeout at most."""
        threads = ThreadPoolExecutor(WRITERS, "content")
        try:
            async with asyncio.TaskGroup() as tasks:
                writers = [tasks.create_task(self._write_all(threads)) for _ in range(WRITERS)]
                try:
                    yield
                finally:
                    await self._drain()
                    for writer in writers:
                        writer.cancel()
        finally:
            threads.shutdown(wait=False, cancel_futures=True)

    async def _drain(self) -> None:
        self._open = False
        try:
            async with asyncio.timeout(self._drain_s):
                await self._queue.join()
        except TimeoutError:
            lost = self._queue.qsize()
            self.dropped += lost
            logger.warning("content not kept: the gateway has stopped", dropped=lost)

    async def _write_all(self, threads: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        while True:
            content = await self._queue.get()
            try:
                written = await loop.run_in_executor(threads, self._write, content)
                self.stored += written
                self.dropped += not written
            finally:
                self._bytes -= _size(content)
                self._queue.task_done()

    def _write(self, content: Content) -> bool:
        """In a thread. Whether it is kept; why not is logged, without a word of it."""
        try:
            # Where it lies is by what it was: a redactor cannot put it under another tenant.
            put_private(self._objects, content_path(content), document_of(self._redacted(content)))
        except StoreUnavailable as error:
            logger.warning("content not kept", id=content.id, tenant=content.tenant, detail=error.detail)
        except Exception as error:
            # Its message may quote what was to be taken out.
            logger.error("content not kept", id=content.id, tenant=content.tenant, raised=_kind(error))
        else:
            return True
        return False

    def _redacted(self, content: Content) -> Content:
        if self._redact is None:
            return content
        redacted = self._redact(content)
        if not isinstance(redacted, Content):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError("a redactor returns a Content")
        return redacted


def _size(content: Content) -> int:
    return OVERHEAD_BYTES + len(content.asked) + sum(map(len, content.answered))


def _kind(error: Exception) -> str:
    return f"{type(error).__module__}.{type(error).__qualname__}"
