"""Serves one inference request: alias → pool → replica → relay."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Protocol

from forebay.catalog.catalog import Catalog
from forebay.fleet.fleet import Fleet
from forebay.fleet.model_name import StreamRenamer, renamed
from forebay.fleet.pool import Pool
from forebay.fleet.replica import Endpoint
from forebay.fleet.upstream import UnreachableError
from forebay.serving.request import InferenceRequest, outbound_body


class ReplicaAnswer(Protocol):
    """A replica's good answer; see `fleet.upstream.UpstreamAnswer`."""

    async def whole(self) -> bytes: ...

    def events(self) -> AsyncGenerator[bytes]: ...


class Replicas(Protocol):
    """How replicas are called; see `fleet.upstream.UpstreamClient`."""

    def post(
        self, pool: str, endpoint: Endpoint, path: str, body: bytes, *, stream: bool
    ) -> AbstractAsyncContextManager[ReplicaAnswer]: ...


class Answer:
    """An answer that has begun, under the name of the model that was asked for."""

    def __init__(self, pool: str, replica: str, upstream: ReplicaAnswer, alias: str, *, rename: bool) -> None:
        self.pool = pool
        self.replica = replica
        self._upstream = upstream
        self._alias = alias
        self._rename = rename

    async def whole(self) -> bytes:
        """The JSON body. Raises UpstreamFailed."""
        return renamed(await self._upstream.whole(), self._alias)

    async def events(self) -> AsyncGenerator[bytes]:
        """The event stream's bytes. Raises UpstreamFailed where the replica breaks off."""
        renamer = StreamRenamer(self._alias) if self._rename else None
        async for chunk in self._upstream.events():
            relayed = renamer.feed(chunk) if renamer else chunk
            if relayed:
                yield relayed


class InferenceService:
    """The straight line that every request takes."""

    def __init__(self, catalog: Catalog, fleet: Fleet, replicas: Replicas) -> None:
        self._catalog = catalog
        self._fleet = fleet
        self._replicas = replicas

    def pool_of(self, alias: str) -> Pool:
        """Raises ModelNotFound."""
        return self._fleet.pool(self._catalog.resolve(alias).pool)

    @asynccontextmanager
    async def serve(self, request: InferenceRequest, pool: Pool) -> AsyncGenerator[Answer]:
        """The answer of one of the pool's replicas; leaving ends the request there and gives the replica's slot back.

        Raises CapacityUnavailable where none can be reached, and the error that the replica's answer stands for.
        """
        async with AsyncExitStack() as held:
            yield await self._open(request, pool, held)

    async def _open(self, request: InferenceRequest, pool: Pool, held: AsyncExitStack) -> Answer:
        """Try the replicas until one takes the request; one that could not be reached has not seen it."""
        tried: frozenset[str] = frozenset()
        while True:
            async with AsyncExitStack() as attempt:
                lease = attempt.enter_context(pool.lease(tried))
                body = outbound_body(request, lease.endpoint)
                call = self._replicas.post(pool.name, lease.endpoint, request.route, body, stream=request.stream)
                try:
                    upstream = await attempt.enter_async_context(call)
                except UnreachableError as error:
                    lease.replica.suspect(str(error))
                    tried |= {lease.replica.name}
                    continue
                held.push_async_exit(attempt.pop_all())
                rename = lease.endpoint.model != request.alias
                return Answer(pool.name, lease.replica.name, upstream, request.alias, rename=rename)
