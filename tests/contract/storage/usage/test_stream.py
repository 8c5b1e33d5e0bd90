"""Usage through a real NATS server: each record once, whoever is killed on the way."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import nats
import pytest

from forebay.core.errors import ConfigurationError, StoreUnavailable
from forebay.metering.settings import MeteringSettings
from forebay.storage.objects.opening import open_objects
from forebay.storage.objects.store import ObjectStore
from forebay.storage.usage.carrying import Collector, Forwarder, carry
from forebay.storage.usage.nats import UsageStream, open_stream
from tests.contract.storage.usage.books import QUICK, Books, open_books
from tests.contract.storage.usage.records import ended, opened
from tests.support.servers.nats import NatsServer, nats_server


@pytest.fixture
def server() -> Iterator[NatsServer]:
    with nats_server() as running:
        yield running


def settings_for(server: NatsServer, **fields: Any) -> MeteringSettings:
    return msgspec.structs.replace(QUICK, nats_url=server.url, nats_batch_s=0.3, **fields)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 120))


@asynccontextmanager
async def gateway(
    root: Path, objects: ObjectStore, settings: MeteringSettings
) -> AsyncGenerator[tuple[Books, UsageStream]]:
    async with open_books(root, objects, settings) as books, open_stream(settings) as stream:
        yield books, stream


async def book(books: Books, *ids: str) -> None:
    for id_ in ids:
        usage = opened(id_, tags={"n": id_})
        await books.book(usage, ended(usage))


async def insist(work: Any, *arguments: Any) -> Any:
    async with asyncio.timeout(60):
        while True:
            try:
                return await work(*arguments)
            except StoreUnavailable:
                await asyncio.sleep(0.1)


def test_records_of_two_gateways_come_into_one_warehouse(tmp_path: Path, server: NatsServer):
    objects, settings = open_objects(tmp_path / "objects", {}), settings_for(server)

    async def work() -> None:
        async with (
            gateway(tmp_path / "a", objects, settings) as (one, one_stream),
            gateway(tmp_path / "b", objects, settings) as (other, other_stream),
        ):
            await book(one, "a1", "a2")
            await book(other, "b1")
            assert await one.ids() == {"a1": 1, "a2": 1}
            await Forwarder(one.log).forward(one_stream)
            await Forwarder(other.log).forward(other_stream)
            collector = Collector(one.partitions, one.duck, settings)
            assert await collector.collect(one_stream) == 3
            assert await collector.collect(one_stream) == 0
            assert await one.ids() == await other.ids() == {"a1": 1, "a2": 1, "b1": 1}

    run(work())


def test_what_is_sent_again_is_there_once(tmp_path: Path, server: NatsServer):
    objects, settings = open_objects(tmp_path / "objects", {}), settings_for(server, segment_mb=1.0)

    async def work() -> None:
        async with gateway(tmp_path, objects, settings) as (books, stream):
            await book(books, "u1", "u2")
            forwarder = Forwarder(books.log)
            await forwarder.forward(stream)
            await book(books, "u3")
            await forwarder.forward(stream)
            # As after a crash: nobody knows what was sent.
            await Forwarder(books.log).forward(stream)
            assert (await stream.take(100, 0.3)).ids == ("u1", "u2", "u3")

    run(work())


def test_a_sealed_segment_is_dropped_once_the_warehouse_has_it(tmp_path: Path, server: NatsServer):
    objects, settings = open_objects(tmp_path / "objects", {}), settings_for(server)

    async def work() -> None:
        async with gateway(tmp_path, objects, settings) as (books, stream):
            await book(books, *(f"u{number}" for number in range(20)))
            async with asyncio.timeout(20):
                while not books.log.sealed():  # noqa: ASYNC110  # nobody tells of it
                    await asyncio.sleep(0.005)
            server.stop()
            forwarder = Forwarder(books.log)
            with pytest.raises(StoreUnavailable, match="NATS"):
                await forwarder.forward(stream)
            assert books.log.sealed()
            server.start()
            await insist(forwarder.forward, stream)
            assert books.log.sealed()
            assert await insist(Collector(books.partitions, books.duck, settings).collect, stream) == 20
            assert books.log.sealed()
            async with asyncio.timeout(20):
                while books.log.sealed():
                    await forwarder.forward(stream)
            assert await books.ids() == {f"u{number}": 1 for number in range(20)}

    run(work())


def test_a_server_that_is_killed_loses_nothing_that_it_has_answered_for(tmp_path: Path, server: NatsServer):
    objects, settings = open_objects(tmp_path / "objects", {}), settings_for(server)

    async def work() -> None:
        async with gateway(tmp_path, objects, settings) as (books, stream):
            forwarder, expected = Forwarder(books.log), dict[str, int]()
            for life in range(3):
                ids = [f"u{life}-{number}" for number in range(30)]
                expected.update(dict.fromkeys(ids, 1))
                await book(books, *ids)
                sending = asyncio.create_task(insist(forwarder.forward, stream))
                await asyncio.sleep(0.01 * life)
                await asyncio.to_thread(server.stop)
                await asyncio.to_thread(server.start)
                await sending
            collector = Collector(books.partitions, books.duck, settings)
            async with asyncio.timeout(60):
                while await books.ids() != expected or books.log.sealed():
                    await insist(forwarder.forward, stream)
                    await insist(collector.collect, stream)

    run(work())


def test_a_stream_that_was_lost_is_filled_again(tmp_path: Path, server: NatsServer):
    objects, settings = open_objects(tmp_path / "objects", {}), settings_for(server)

    async def work() -> None:
        async with gateway(tmp_path, objects, settings) as (books, stream):
            await book(books, "u1", "u2")
            forwarder = Forwarder(books.log)
            await forwarder.forward(stream)
            client = await nats.connect(server.url)
            await client.jetstream().delete_stream(settings.nats_stream)
            await client.close()
            await book(books, "u3")
            collector = Collector(books.partitions, books.duck, settings)
            async with asyncio.timeout(60):
                while books.log.sealed() or not books.partitions.all():
                    await insist(forwarder.forward, stream)
                    await insist(collector.collect, stream)
                    assert await books.ids() == {"u1": 1, "u2": 1, "u3": 1}

    run(work())


def test_a_collector_that_dies_midway_leaves_its_batch_to_another(tmp_path: Path, server: NatsServer):
    objects, settings = open_objects(tmp_path / "objects", {}), settings_for(server)

    async def work() -> None:
        async with gateway(tmp_path, objects, settings) as (books, stream):
            await book(books, "u1", "u2", "u3")
            await Forwarder(books.log).forward(stream)
            batch = await stream.take(3, 10)
            assert len(batch.ids) == 3
            books.partitions.put_records(books.duck, batch.records, "as-the-dead-one-named-it")
            # What the server does by itself when the time for an answer is over.
            await stream.again(batch)
        async with gateway(tmp_path, objects, settings) as (books, stream):
            collector = Collector(books.partitions, books.duck, settings)
            collected = 0
            async with asyncio.timeout(30):
                while collected < 3:
                    collected += await collector.collect(stream)
            assert len(books.partitions.all()) > 1
            assert await books.ids() == {"u1": 1, "u2": 1, "u3": 1}

    run(work())


def test_a_gateway_carries_by_itself_through_the_servers_death(tmp_path: Path, server: NatsServer):
    objects, settings = open_objects(tmp_path / "objects", {}), settings_for(server)
    server.stop()

    async def work() -> None:
        async with open_books(tmp_path, objects, settings) as books:
            carrying = asyncio.create_task(
                carry(lambda: open_stream(settings), books.log, books.partitions, books.duck, settings)
            )
            try:
                await book(books, "u1")
                await asyncio.to_thread(server.start)
                await book(books, "u2")
                async with asyncio.timeout(60):
                    while books.log.sealed() or not books.partitions.all():
                        assert not carrying.done()
                        await asyncio.sleep(0.05)
                        assert await books.ids() == {"u1": 1, "u2": 1}
            finally:
                carrying.cancel()
                await asyncio.gather(carrying, return_exceptions=True)

    run(work())


def test_a_carrier_without_an_address_is_told():
    async def work() -> None:
        with pytest.raises(ConfigurationError, match=r"metering\.nats_url"):
            async with open_stream(MeteringSettings(carrier="nats")):
                pass

    run(work())
