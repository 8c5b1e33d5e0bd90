"""Serves one inference request: alias → pool → reservation → replica → relay → settlement."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Protocol

from forebay.api.generation import PUBLIC_PREFIX_HEADER
from forebay.catalog.catalog import Catalog
from forebay.core.errors import CapacityUnavailable, ForebayError, UpstreamFailed
from forebay.fleet.pool import Pool
from forebay.fleet.replica import Endpoint
from forebay.fleet.upstream import UnreachableError
from forebay.metering.usage import UsageStatus
from forebay.serving.admission import Admitted
from forebay.serving.answer import Answer, ReplicaAnswer
from forebay.serving.content_log import Content, ContentLog
from forebay.serving.metered_run import Books, MeteredRun
from forebay.serving.request import InferenceRequest, outbound_body
from forebay.serving.settler import CLIENT_LEFT_STATUS, Settler

REQUEST_ID_HEADER = "X-Request-Id"


class Replicas(Protocol):
    """How replicas are called; see `fleet.upstream.UpstreamClient`."""

    def post(
        self, pool: str, endpoint: Endpoint, path: str, body: bytes, *, stream: bool, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[ReplicaAnswer]: ...


class InferenceService:
    """The straight line that every request takes. `stopping` says that what is cancelled now is so because the gateway
    ends it, not because its caller has left.
    """

    def __init__(
        self,
        catalog: Catalog,
        replicas: Replicas,
        books: Books,
        settler: Settler,
        *,
        content: ContentLog,
        stopping: Callable[[], bool],
    ) -> None:
        self._catalog = catalog
        self._replicas = replicas
        self._books = books
        self._settler = settler
        self._content = content
        self._stopping = stopping

    @asynccontextmanager
    async def serve(self, request: InferenceRequest, pool: Pool) -> AsyncGenerator[Answer]:
        """The answer of one of the pool's replicas; leaving ends the request there, gives the replica's slot back,
        settles the reservation and closes the usage record.

        Raises what refuses the request, CapacityUnavailable where no replica can be reached, and the error that the
        replica's answer stands for.
        """
        run = MeteredRun(request, pool, self._catalog.resolve(request.alias).version.name, self._books)
        answer: Answer | None = None
        status: UsageStatus = "client_left"
        http_status = CLIENT_LEFT_STATUS
        try:
            async with AsyncExitStack() as held:
                answer = await self._open(run, await run.begin(), pool, held)
                yield answer
        except ForebayError as error:
            status, http_status = "failed", error.status
            error.headers = {**run.headers, **error.headers}
            if answer is None and not isinstance(error, UpstreamFailed):
                # Turned away before it ran: what it held is free before the caller knows.
                await self._settler.refused(run, http_status)
            raise
        except asyncio.CancelledError:
            if self._stopping():
                status, http_status = "failed", CapacityUnavailable.status
            raise
        except Exception:
            status, http_status = "failed", 500
            raise
        finally:
            if not run.ended:
                self._settler.leave(run, status, http_status)
            if request.principal.log_content and answer is not None:
                self._content.keep(self._content_of(request, answer))

    def _content_of(self, request: InferenceRequest, answer: Answer) -> Content:
        return Content(
            id=request.id,
            request_id=request.request_id,
            tenant=request.principal.tenant_id,
            key=request.principal.key_id,
            alias=request.alias,
            at=self._books.unix_time(),
            asked=request.body,
            answered=answer.told,
        )

    async def _open(self, run: MeteredRun, admitted: Admitted, pool: Pool, held: AsyncExitStack) -> Answer:
        """Try the replicas until one takes the request; one that could not be reached has not seen it."""
        request, public = run.request, admitted.admissible.prompt.public_prefix_tokens
        tried: frozenset[str] = frozenset()
        while True:
            async with AsyncExitStack() as attempt:
                lease = attempt.enter_context(pool.lease(tried))
                body = outbound_body(request, lease.endpoint, output_cap=admitted.output_cap)
                headers = {REQUEST_ID_HEADER: request.id}
                if public and lease.endpoint.tells_usage:
                    # Our own engine alone knows what that is.
                    headers[PUBLIC_PREFIX_HEADER] = str(public)
                run.dispatched(lease)
                call = self._replicas.post(
                    pool.name, lease.endpoint, request.route, body, stream=request.stream, headers=headers
                )
                try:
                    upstream = await attempt.enter_async_context(call)
                except UnreachableError as error:
                    lease.replica.suspect(str(error))
                    tried |= {lease.replica.name}
                    run.came_back()
                    continue
                held.push_async_exit(attempt.pop_all())
                return Answer(
                    run=run,
                    admitted=admitted,
                    upstream=upstream,
                    endpoint=lease.endpoint,
                    settler=self._settler,
                    leave=held.aclose,
                )
