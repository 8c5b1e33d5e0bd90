"""A response of server-sent events that ends when its client leaves."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from itertools import count

from litestar.response.base import ASGIResponse
from litestar.types import Receive, Scope, Send

from forebay.api import sse
from forebay.core.errors import ForebayError
from forebay.web.disconnect import DisconnectError, until_disconnect
from forebay.web.problems import internal_error

CHUNKS_BETWEEN_TURNS = 16
"""After so many, whatever else the event loop has to do gets its turn; to notice that the client left, above all."""


class EventStream(ASGIResponse):
    """Streams `events`: bytes, each of whole server-sent events.

    The first is awaited before the response starts, so that what goes wrong until then is answered with its own
    status; what goes wrong later ends the stream with an error event. All of `events` runs in one task, which closes it
    on every exit, at once when the client leaves, whether or not an event is then being made. A generator whose client
    leaves before its first step never runs at all: what must be released has to be taken inside it.

    `headers` are asked for when the response starts, once the first event is there.
    """

    __slots__ = ("_events", "_late_headers")
    _should_set_content_length = False

    def __init__(
        self, events: AsyncGenerator[bytes, None], *, headers: Callable[[], Mapping[str, str]] | None = None
    ) -> None:
        super().__init__(media_type=sse.MEDIA_TYPE, headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        self._events = events
        self._late_headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(DisconnectError):
            await until_disconnect(receive, self._run(scope, send))

    async def _run(self, scope: Scope, send: Send) -> None:
        try:
            chunk = await anext(self._events, None)
            for name, value in (self._late_headers() if self._late_headers else {}).items():
                self.headers.add(name, value)
            await self.start_response(send)
            try:
                for sent in count(1):
                    if chunk is None:
                        break
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                    # Neither of the two waits has to wait: events may be there, and one who has left takes all.
                    if sent % CHUNKS_BETWEEN_TURNS == 0:
                        await asyncio.sleep(0)
                    chunk = await anext(self._events, None)
            except ForebayError as error:
                await send({"type": "http.response.body", "body": sse.error_event(error), "more_body": True})
            except Exception as error:
                told = sse.error_event(internal_error(error, scope))
                await send({"type": "http.response.body", "body": told, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            await self._events.aclose()
