"""From the local logs of many gateways through a stream into the warehouse."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from forebay.core.errors import StoreUnavailable
from forebay.core.outage import Outage
from forebay.metering.settings import MeteringSettings
from forebay.storage.usage.duck import Duck
from forebay.storage.usage.local_log import LocalUsageLog
from forebay.storage.usage.nats import Progress, UsageStream
from forebay.storage.usage.partitions import Partitions, unreadable
from forebay.storage.usage.tail import closed_records

LOOK_EVERY_S = 1.0
RETRY_S = 5.0


@dataclass(frozen=True, slots=True)
class _Sent:
    """So many bytes of a segment; the highest number that the stream gave one of their records."""

    size: int
    number: int


class Forwarder:
    """Sends each record of the local log to the stream, soon after it was closed; what was sent before a crash is sent
    again. A segment is dropped once it is sealed and all of it has come to the warehouse, so that its records are never
    out of the books on the way.
    """

    def __init__(self, log: LocalUsageLog) -> None:
        self._log = log
        self._sent: dict[str, _Sent] = {}
        self._stream: str | None = None

    async def forward(self, stream: UsageStream) -> None:
        """All that is written now. Raises StoreUnavailable; what is left comes next time."""
        self._is_same(await stream.progress())
        sealed = self._log.sealed()
        for segment in (*sealed, self._log.segment):
            await self._send(segment, stream)
        if sealed and self._is_same(progress := await stream.progress()):
            await self._drop(sealed, progress)

    def _is_same(self, progress: Progress) -> bool:
        """Whether it is the stream that was sent to before. Nobody knows what became of what another one had."""
        if progress.stream == self._stream:
            return True
        self._stream = progress.stream
        self._sent.clear()
        return False

    async def _drop(self, sealed: Sequence[Path], progress: Progress) -> None:
        for segment in sealed:
            if self._sent[segment.stem].number > progress.collected:
                return
            await self._log.drop(segment)
            del self._sent[segment.stem]

    async def _send(self, segment: Path, stream: UsageStream) -> None:
        before = self._sent.get(segment.stem, _Sent(0, 0))
        content = await asyncio.to_thread(_after, segment, before.size)
        whole = content[: content.rfind(b"\n") + 1]
        number = await stream.send(closed_records(whole).splitlines())
        self._sent[segment.stem] = _Sent(before.size + len(whole), max(before.number, number))


class Collector:
    """Takes records from the stream into the warehouse. Any number of gateways may do so: each record goes to one of
    them, and to another where that one dies before the record is safe.
    """

    def __init__(self, partitions: Partitions, duck: Duck, settings: MeteringSettings) -> None:
        self._partitions = partitions
        self._duck = duck
        self._settings = settings

    async def collect(self, stream: UsageStream) -> int:
        """One batch; how many records it had. Raises StoreUnavailable; what is not safe comes again."""
        batch = await stream.take(self._settings.nats_batch, self._settings.nats_batch_s)
        if batch.ids:
            # The same records give the same name: a batch that comes again as it was replaces itself.
            name = "stream-" + sha256("\n".join(sorted(batch.ids)).encode()).hexdigest()[:32]
            try:
                await asyncio.to_thread(self._partitions.put_records, self._duck, batch.records, name)
            except StoreUnavailable:
                await stream.again(batch)
                raise
            await stream.done(batch)
        return len(batch.ids)


async def carry(
    opened: Callable[[], AbstractAsyncContextManager[UsageStream]],
    log: LocalUsageLog,
    partitions: Partitions,
    duck: Duck,
    settings: MeteringSettings,
) -> None:
    """Forward and collect until cancelled, through streams that `opened` connects to: again where that fails."""
    forwarder, collector = Forwarder(log), Collector(partitions, duck, settings)
    forwarding = Outage("usage not sent to its stream", "usage is sent to its stream again")
    collecting = Outage("usage not taken from its stream", "usage is taken from its stream again")
    connection = Outage("usage not carried", "usage is carried again")
    while True:
        try:
            async with opened() as stream:
                connection.ends()
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(_keep(stream, forwarder.forward, LOOK_EVERY_S, forwarding))
                    tasks.create_task(_keep(stream, collector.collect, 0.0, collecting))
        except* StoreUnavailable as errors:
            connection.begins(detail=str(errors.exceptions[0]))
        await asyncio.sleep(RETRY_S)


async def _keep(
    stream: UsageStream, work: Callable[[UsageStream], Coroutine[Any, Any, object]], pause_s: float, outage: Outage
) -> None:
    """Do it over and over. Raises StoreUnavailable when the stream's connection has ended for good."""
    while True:
        try:
            await work(stream)
        except StoreUnavailable as error:
            if stream.has_ended:
                raise
            outage.begins(detail=error.detail)
            await asyncio.sleep(RETRY_S)
        else:
            outage.ends()
            await asyncio.sleep(pause_s)


def _after(segment: Path, begin: int) -> bytes:
    """What is in a segment beyond `begin`. Blocking. Raises StoreUnavailable."""
    try:
        with segment.open("rb") as file:
            file.seek(begin)
            return file.read()
    except FileNotFoundError:
        # An empty segment is removed at a change.
        return b""
    except OSError as error:
        raise unreadable(error) from error
