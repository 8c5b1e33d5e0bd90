"""The JetStream stream that carries usage records from many gateways to the warehouse."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
import structlog

from forebay.core.errors import ConfigurationError, StoreUnavailable
from forebay.metering.settings import MeteringSettings
from forebay.storage.usage.lines import LineId

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.js import JetStreamContext

CALL_TIMEOUT_S = 10.0
AT_ONCE = 256
"""Messages that wait for the stream's answer together."""
DUPLICATE_WINDOW_S = 3600.0
"""For how long the stream knows a record that is sent again, such as by a gateway that was killed before it noted the
stream's answer. Beyond it the warehouse still counts it once."""
GRACE_S = 120.0
"""How long after a batch was full it may take to be in the warehouse, before others are given its records."""
_DURABLE = "warehouse"
logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Batch:
    """Records, as JSON lines, that the stream keeps until `UsageStream.done`."""

    records: bytes
    ids: tuple[str, ...]
    messages: tuple["Msg", ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """Which stream it is, by when it was made (it may have been lost and made anew), and the number up to which all of
    its records are elsewhere.
    """

    stream: str
    collected: int


class UsageStream:
    """A connection to the stream, made anew whenever it is lost. All raise StoreUnavailable where NATS cannot be
    reached or does not answer in time.
    """

    def __init__(self, client: "Client", settings: MeteringSettings) -> None:
        from nats.errors import Error  # noqa: PLC0415  # an extra: only who has NATS needs it

        self._error = Error
        self._client = client
        self._settings = settings
        self._subject = f"{settings.nats_stream}.closed"
        self._stale = False
        self._stream: JetStreamContext | None = None
        self._pulled: JetStreamContext.PullSubscription | None = None

    @property
    def has_ended(self) -> bool:
        """Whether the connection is gone for good, such as when its credentials were taken back."""
        return self._client.is_closed

    async def send(self, records: Sequence[bytes]) -> int:
        """Returns when the stream has all of these records (JSON), each id once: the highest number that it gave one of
        them, 0 where there are none.
        """
        stream = await self._ready()
        sent: list[asyncio.Task[int]] = []
        for first in range(0, len(records), AT_ONCE):
            try:
                async with asyncio.timeout(CALL_TIMEOUT_S * 2), asyncio.TaskGroup() as tasks:
                    some = records[first : first + AT_ONCE]
                    sent += [tasks.create_task(self._send_one(stream, record)) for record in some]
            except* (self._error, OSError) as errors:
                raise self._unavailable(errors.exceptions[0]) from errors
        return max((task.result() for task in sent), default=0)

    async def progress(self) -> Progress:
        stream, _ = await self._ready(), await self._subscribed()
        try:
            held = await stream.stream_info(self._settings.nats_stream)
            taken = await stream.consumer_info(self._settings.nats_stream, _DURABLE)
        except (self._error, OSError) as error:
            raise self._unavailable(error) from error
        floor = taken.ack_floor
        return Progress(str(held.created), 0 if floor is None else floor.stream_seq)

    async def take(self, most: int, within_s: float) -> Batch:
        """The next records, `most` at most; fewer, or none, where there are no more for so long."""
        pulled = await self._subscribed()
        messages: list[Msg] = []
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        while len(messages) < most and (left := deadline - loop.time()) > 0:
            try:
                messages += await pulled.fetch(most - len(messages), timeout=max(left, 0.1))
            except TimeoutError:
                break
            except (self._error, OSError) as error:
                if not messages:
                    raise self._unavailable(error) from error
                break
        ids = tuple(_id.decode(message.data).id for message in messages)
        return Batch(b"".join(message.data + b"\n" for message in messages), ids, tuple(messages))

    async def done(self, batch: Batch) -> None:
        """The batch is safe elsewhere; the stream may forget it."""
        try:
            for message in batch.messages:
                await message.ack()
            await self._client.flush(int(CALL_TIMEOUT_S))
        except (self._error, OSError) as error:
            raise self._unavailable(error) from error

    async def again(self, batch: Batch) -> None:
        """It could not be put elsewhere: it is to come again, here or at another gateway."""
        try:
            for message in batch.messages:
                await message.nak(delay=1.0)
            await self._client.flush(int(CALL_TIMEOUT_S))
        except (self._error, OSError) as error:
            raise self._unavailable(error) from error

    async def _send_one(self, stream: "JetStreamContext", record: bytes) -> int:
        headers = {"Nats-Msg-Id": _id.decode(record).id}
        answer = await stream.publish(self._subject, record, timeout=CALL_TIMEOUT_S, headers=headers)
        return answer.seq

    async def _ready(self) -> "JetStreamContext":
        """The stream, which is made where it is not there; one that is, is taken as it is."""
        from nats.js.api import RetentionPolicy, StorageType, StreamConfig  # noqa: PLC0415
        from nats.js.errors import NotFoundError  # noqa: PLC0415

        if self._stale:
            await self._forget()
        if self._stream is None:
            stream = self._client.jetstream(timeout=CALL_TIMEOUT_S)
            name = self._settings.nats_stream
            try:
                try:
                    await stream.stream_info(name)
                except NotFoundError:
                    await stream.add_stream(
                        StreamConfig(
                            name=name,
                            subjects=[self._subject],
                            retention=RetentionPolicy.WORK_QUEUE,
                            storage=StorageType.FILE,
                            duplicate_window=DUPLICATE_WINDOW_S,
                        )
                    )
            except (self._error, OSError) as error:
                raise self._unavailable(error) from error
            self._stream = stream
        return self._stream

    async def _forget(self) -> None:
        pulled, self._pulled, self._stream, self._stale = self._pulled, None, None, False
        if pulled is not None:
            with suppress(self._error, OSError):
                await pulled.unsubscribe()

    async def _subscribed(self) -> "JetStreamContext.PullSubscription":
        from nats.js.api import AckPolicy, ConsumerConfig  # noqa: PLC0415

        stream = await self._ready()
        if self._pulled is None:
            settings = self._settings
            config = ConsumerConfig(
                ack_policy=AckPolicy.EXPLICIT, ack_wait=settings.nats_batch_s + GRACE_S, max_ack_pending=-1
            )
            try:
                self._pulled = await stream.pull_subscribe(
                    self._subject, durable=_DURABLE, stream=settings.nats_stream, config=config
                )
            except (self._error, OSError) as error:
                raise self._unavailable(error) from error
        return self._pulled

    def _unavailable(self, error: BaseException) -> StoreUnavailable:
        # The stream may have been deleted, or its consumer: they are looked for again.
        self._stale = True
        return StoreUnavailable(
            f"The NATS stream {self._settings.nats_stream} of usage records cannot be used "
            f"({str(error) or type(error).__name__}). Check that the server of the setting metering.nats_url runs, "
            "with JetStream."
        )


@asynccontextmanager
async def open_stream(settings: MeteringSettings) -> AsyncGenerator[UsageStream]:
    """Connects to the settings' server. Raises StoreUnavailable, and ConfigurationError where the extra is missing."""
    try:
        from nats.aio.client import Client  # noqa: PLC0415
        from nats.errors import Error  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationError(
            'The setting metering.carrier = "nats" needs the NATS client, which is not installed: '
            "install `forebay[nats]`, or use the carrier `files`."
        ) from error
    if settings.nats_url is None:
        raise ConfigurationError(
            'The setting metering.carrier = "nats" needs metering.nats_url, the server\'s address.'
        )
    client, server = Client(), urlsplit(settings.nats_url).hostname
    try:
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                await client.connect(
                    settings.nats_url,
                    name="forebay",
                    error_cb=_note,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=1,
                    connect_timeout=5,
                )
        except (Error, OSError) as error:
            raise StoreUnavailable(
                f"The NATS server {server} of usage records cannot be reached ({str(error) or 'no answer in time'}). "
                "Check the setting metering.nats_url and that it runs."
            ) from error
        yield UsageStream(client, settings)
    finally:
        await client.close()


async def _note(error: Any) -> None:
    logger.warning("connection to the usage stream disturbed", error=str(error) or type(error).__name__)


_id = msgspec.json.Decoder(LineId)
