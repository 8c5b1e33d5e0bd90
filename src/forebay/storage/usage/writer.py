"""Writes the segments of the local usage log: one write to the disk serves all who wait for it."""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import structlog

from forebay.core.clock import Clock
from forebay.core.units import MIB
from forebay.metering.settings import MeteringSettings
from forebay.storage.usage.segment import Segment

T = TypeVar("T")

IDLE_S = 1.0
"""How often it is looked whether a segment has come of age, or what could not be written now can be."""
PROBE = b"\n" * 4096
"""Lines that say nothing, to see whether what could not be written now can be."""
logger = structlog.get_logger(__name__)


class SegmentWriter:
    """Owns the segment that is written now. Lines are handed to the system at once, on the event loop; syncing them to
    the disk, and all else that waits for it, is done in a thread of its own by `run`.
    """

    def __init__(self, directory: Path, number: int, settings: MeteringSettings, clock: Clock) -> None:
        self._directory = directory
        self._number = number
        self._settings = settings
        self._clock = clock
        self._thread = ThreadPoolExecutor(1, "usage-log")
        self._current = Segment.create(directory, number)
        self._began = clock.now()
        self._sealed: list[Path] = []
        self._kept: deque[bytes] = deque()
        self._unsynced: list[bytes] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._fault: OSError | None = None
        self._stopping = False
        self._touched = asyncio.Event()
        self._urgent = asyncio.Event()

    @property
    def segment(self) -> Path:
        """Where lines go now."""
        return self._current.path

    @property
    def kept(self) -> int:
        """How many lines could not be written so far."""
        return len(self._kept)

    @property
    def fails(self) -> bool:
        """Whether something could not be written, and nothing could since."""
        return self._fault is not None

    def sealed(self) -> tuple[Path, ...]:
        """Segments that nothing is written to any more, oldest first."""
        return tuple(self._sealed)

    def forget(self, segment: Path) -> None:
        """Of a sealed segment that is gone."""
        self._sealed.remove(segment)

    def append(self, line: bytes) -> None:
        """Write a line that whoever asks can do without. Raises OSError, and nothing is left of it."""
        self._write_kept()
        self._write(line)

    def keep(self, line: bytes) -> None:
        """Write a line that must not be lost: where it cannot be written now, it will be once that is possible."""
        self._kept.append(line)
        with suppress(OSError):
            self._write_kept()

    async def synced(self) -> None:
        """Returns when all that was written before would survive a loss of power. Raises OSError where it might not."""
        if not self._settings.survive_power_loss:
            return
        done = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        self._touched.set()
        self._urgent.set()
        await done

    async def run(self) -> None:
        """Sync and rotate until `stop`."""
        while not self._stopping:
            await self._rest()
            try:
                await self._commit()
            except OSError as error:
                # Whoever waits is told within its own time; a later round may succeed.
                self._has_failed(error)
                await asyncio.sleep(IDLE_S)
            except Exception as error:
                logger.error("usage log failed", directory=str(self._directory), kind=type(error).__name__)
                await asyncio.sleep(IDLE_S)

    def stop(self) -> None:
        """Let `run` end after the round that it is in."""
        self._stopping = True
        self._touched.set()
        self._urgent.set()

    async def aclose(self) -> None:
        """After `run`: what was written is synced."""
        try:
            try:
                await self._write_last()
            except OSError as error:
                logger.error("usage lost", records=len(self._kept), directory=str(self._directory), error=str(error))
            await self._in_thread(self._current.close)
            if not self._current.size:
                await self._in_thread(self._current.path.unlink)
        finally:
            self._thread.shutdown()

    async def _write_last(self) -> None:
        broken = self._current
        if broken.broken:
            with suppress(OSError):
                await self._sync(broken)
            await self._replace()
            if self._current is not broken:
                await self._seal(broken)
        self._write_kept()
        await self._sync(self._current)

    def _write(self, line: bytes) -> None:
        known = self._fault
        self._touched.set()
        try:
            if self._current.broken:
                raise OSError(f"{self._current.path} cannot be written any more")
            self._current.append(line)
        except OSError as error:
            self._has_failed(error)
            raise
        if not self._settings.survive_power_loss:
            self._has_worked(known)

    def _has_failed(self, error: OSError) -> None:
        if self._fault is None:
            logger.error("usage not written; requests are refused", directory=str(self._directory), error=str(error))
        self._fault = error

    def _has_worked(self, known: OSError | None) -> None:
        """With nothing gone wrong since the fault that was `known` when it was begun."""
        if self._fault is not None and self._fault is known:
            logger.info("usage is written again", directory=str(self._directory))
            self._fault = None

    def _write_kept(self) -> None:
        while self._kept:
            self._write(self._kept[0])
            self._unsynced.append(self._kept.popleft())

    async def _rest(self) -> None:
        await _set_within(self._touched, IDLE_S)
        if self._touched.is_set():
            await _set_within(self._urgent, self._settings.sync_delay_s)

    async def _commit(self) -> None:
        self._touched.clear()
        self._urgent.clear()
        segment = self._current
        if segment.broken or self._is_due(segment):
            await self._replace()
        try:
            # Between the replacement and this nobody can have come to wait for another segment than `segment`.
            await self._sync(segment)
        finally:
            if segment is not self._current:
                await self._seal(segment)
        if self._kept or self.fails:
            self._retry()

    async def _replace(self) -> None:
        try:
            replacement = await self._in_thread(lambda: Segment.create(self._directory, self._number + 1))
        except OSError as error:
            self._has_failed(error)
            return
        self._current, self._number, self._began = replacement, self._number + 1, self._clock.now()

    async def _seal(self, segment: Segment) -> None:
        await self._in_thread(segment.close)
        if segment.size:
            self._sealed.append(segment.path)
        else:
            await self._in_thread(segment.path.unlink)

    def _retry(self) -> None:
        try:
            self._write_kept()
            if self.fails and not self._unsynced:
                self._write(PROBE)
                self._unsynced.append(PROBE)
        except OSError:
            # It may be this file alone (a limit on its size, a bad place on the disk): the next one may fare better.
            self._current.broken = True
            raise

    def _is_due(self, segment: Segment) -> bool:
        old = self._clock.now() - self._began >= self._settings.segment_age_s
        return segment.size >= self._settings.segment_mb * MIB or (old and segment.size > 0)

    async def _sync(self, segment: Segment) -> None:
        waiting, unsynced = self._waiting, self._unsynced
        self._waiting, self._unsynced = [], []
        failed, known = None, self._fault
        if self._settings.survive_power_loss and (waiting or unsynced):
            try:
                if segment.broken:
                    raise OSError(f"{segment.path} cannot be written any more")
                await self._in_thread(segment.sync)
                self._has_worked(known)
            except OSError as error:
                failed = error
                # They go into the next segment, for they may not be in this one; twice is as good as once.
                self._kept.extendleft(line for line in reversed(unsynced) if line is not PROBE)
        for done in waiting:
            if done.done():
                continue
            if failed is None:
                done.set_result(None)
            else:
                done.set_exception(OSError(str(failed)))
        if failed is not None:
            raise failed

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
