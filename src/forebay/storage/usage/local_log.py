"""The usage log on a local disk: what survives everything that happens to this process."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import structlog

from forebay.core.clock import Clock
from forebay.core.errors import StoreUnavailable
from forebay.metering.settings import MeteringSettings
from forebay.metering.usage import OpenedUsage, TokenUsage, UsageRecord
from forebay.storage.usage import lines, slots
from forebay.storage.usage.inheritance import Unfinished, inherited, next_number, segments_below
from forebay.storage.usage.writer import SegmentWriter

RETRY_S = 5.0
logger = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Running:
    """A request that is open, and the segment that its line is in."""

    unfinished: Unfinished
    segment: Path
    unwritten: bool = False


class LocalUsageLog:
    """Keeps usage below `root`, which the gateways of one machine may share. Fits `UsageLog`.

    What is closed stays here until `drop` is told that it is elsewhere. Opening one takes over what processes that have
    died have left: see `recovered`.
    """

    def __init__(self, root: Path, settings: MeteringSettings, clock: Clock) -> None:
        self._root = root
        self._settings = settings
        self._clock = clock
        self._running: dict[str, _Running] = {}
        self._recovered: list[Unfinished] = []
        self._inherited: list[Path] = []
        self._unanswered = False

    async def __aenter__(self) -> Self:
        """Raises StoreUnavailable."""
        try:
            self._slot = await asyncio.to_thread(slots.claim, self._root)
        except OSError as error:
            raise self._unavailable(error) from error
        try:
            left = await asyncio.to_thread(segments_below, self._slot.directory)
            number = next_number(left)
            await self._inherit(left)
            await self.adopt()
            self._writer = SegmentWriter(self._slot.directory, number, self._settings, self._clock)
        except OSError as error:
            self._slot.release()
            raise self._unavailable(error) from error
        except BaseException:
            self._slot.release()
            raise
        self._writing = asyncio.create_task(self._writer.run())
        self._noting = asyncio.create_task(self._note_seen())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._noting.cancel()
            self._writer.stop()
            await asyncio.gather(self._noting, self._writing, return_exceptions=True)
            await self._writer.aclose()
        finally:
            self._slot.release()

    def recovered(self) -> list[Unfinished]:
        """What was open when the processes died whose logs were taken over, each told once. It is for the caller to
        close them: `metering.closing.recovered`.
        """
        recovered, self._recovered = self._recovered, []
        return recovered

    async def adopt(self) -> None:
        """Take over what processes have left that died since: more for `recovered`. Raises StoreUnavailable."""
        try:
            for directory in await asyncio.to_thread(slots.adopt, self._root, self._slot):
                await self._inherit(await asyncio.to_thread(segments_below, directory))
        except OSError as error:
            raise self._unavailable(error) from error

    async def open(self, opened: OpenedUsage) -> None:
        try:
            self._writer.append(lines.opened_line(opened))
        except OSError as error:
            raise _refused() from error
        self._running[opened.id] = _Running(Unfinished(opened, None, opened.replica), self._writer.segment)
        try:
            async with asyncio.timeout(self._settings.open_timeout_s):
                await self._writer.synced()
        except OSError as error:
            self._withdraw(opened.id)
            self._note_answer(isinstance(error, TimeoutError))
            raise _refused() from error
        except BaseException:
            self._withdraw(opened.id)
            raise
        self._note_answer(False)

    def seen(self, id_: str, tokens: TokenUsage, replica: str) -> None:
        if (running := self._running.get(id_)) is not None:
            running.unfinished = Unfinished(running.unfinished.opened, tokens, replica)
            running.unwritten = True

    async def close(self, record: UsageRecord) -> None:
        if (running := self._running.pop(record.id, None)) is not None:
            self._writer.keep(lines.closed_line(running.unfinished.opened, record))

    def sealed(self) -> tuple[Path, ...]:
        """Segments that nothing is written to any more. Their records are to be taken elsewhere, and they dropped, in
        this order.
        """
        return (*self._inherited, *self._writer.sealed())

    @property
    def segment(self) -> Path:
        """The segment that is written now."""
        return self._writer.segment

    @property
    def fails(self) -> bool:
        """Whether it cannot be written, as far as is known: it is tried again every second."""
        return self._writer.fails

    async def drop(self, segment: Path) -> None:
        """Delete the first of `sealed`, whose records are safe elsewhere. What is still open in it is carried over.

        Raises StoreUnavailable, and it stays.
        """
        assert segment == self.sealed()[0], "a request's end must not go before its beginning"
        try:
            if self._writer.kept:
                raise OSError("records wait to be written")
            self._carry_over(segment)
            async with asyncio.timeout(self._settings.open_timeout_s):
                await self._writer.synced()
            await asyncio.to_thread(segment.unlink)
        except OSError as error:
            raise self._unavailable(error) from error
        if segment in self._inherited:
            self._inherited.remove(segment)
            await asyncio.to_thread(slots.forget, segment.parent, self._slot)
        else:
            self._writer.forget(segment)

    def _carry_over(self, segment: Path) -> None:
        for running in self._running.values():
            if running.segment == segment:
                self._writer.append(lines.opened_line(running.unfinished.opened))
                running.segment = self._writer.segment
                if (seen := _seen_of(running.unfinished)) is not None:
                    self._writer.append(lines.seen_line(seen))

    async def _inherit(self, segments: list[Path]) -> None:
        for unfinished, segment in await asyncio.to_thread(inherited, segments):
            self._running[unfinished.opened.id] = _Running(unfinished, segment)
            self._recovered.append(unfinished)
        self._inherited.extend(segments)

    def _withdraw(self, id_: str) -> None:
        """Nobody pays for what was not let in, though its line may be on the disk."""
        if self._running.pop(id_, None) is not None:
            self._writer.keep(lines.void_line(id_))

    async def _note_seen(self) -> None:
        while True:
            await asyncio.sleep(self._settings.seen_every_s)
            try:
                self._write_seen(self._running.values())
            except OSError:
                # The writer has told of it.
                await asyncio.sleep(RETRY_S)
            except Exception as error:
                directory = str(self._slot.directory)
                logger.error("progress of usage not noted", directory=directory, kind=type(error).__name__)
                await asyncio.sleep(RETRY_S)

    def _write_seen(self, all_running: Iterable[_Running]) -> None:
        changed = [running for running in all_running if running.unwritten]
        seen = [seen for running in changed if (seen := _seen_of(running.unfinished)) is not None]
        if seen:
            self._writer.append(b"".join(map(lines.seen_line, seen)))
        for running in changed:
            running.unwritten = False

    def _note_answer(self, unanswered: bool) -> None:
        """What goes wrong when the disk answers is logged by the writer."""
        if unanswered and not self._unanswered:
            logger.error(
                "the disk of the usage log did not answer in time; requests are refused",
                directory=str(self._slot.directory),
                within_s=self._settings.open_timeout_s,
            )
        self._unanswered = unanswered

    def _unavailable(self, error: OSError) -> StoreUnavailable:
        """For operators."""
        return StoreUnavailable(
            f"The usage log below {self._root} cannot be written ({_said(error)}), and nothing runs unpaid; see to the "
            "disk of the data directory."
        )


def _refused() -> StoreUnavailable:
    """For callers, whom what the disk says does not concern."""
    return StoreUnavailable("The usage log cannot be written now, and nothing runs unpaid; try again.")


def _said(error: OSError) -> str:
    return str(error) or "the disk did not answer in time"


def _seen_of(unfinished: Unfinished) -> lines.SeenUsage | None:
    if unfinished.tokens is None or unfinished.replica is None:
        return None
    return lines.SeenUsage(unfinished.opened.id, unfinished.tokens, unfinished.replica)
