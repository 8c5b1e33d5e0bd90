"""HTTP/1.1 on one connection: uvicorn's protocol, but for what it leaves open."""

import asyncio
from asyncio import TimerHandle

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_TIMEOUT_S = 60.0
"""For a request's head to arrive whole, and for the first one's to begin."""


class HttpProtocol(HttpToolsProtocol):
    """Answers a request that offers another protocol (`Upgrade: h2c`, which curl sends) as HTTP/1.1, body and all, and
    closes a connection on which a request's head does not arrive.
    """

    _head_timer: TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]  # as uvicorn has it
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_here()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        self._await_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head_is_here()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._stay(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")

    def _should_upgrade(self) -> bool:
        """Keeps uvicorn from beginning a request whose parser takes the body for another protocol's bytes."""
        return self.parser.get_method() != b"CONNECT"

    def _stay(self, rest: bytes) -> None:
        """Take the request again without its offer; `rest` came after its head."""
        if not self._should_upgrade():
            # The parser reads no further; the request, without a body, has begun.
            return
        head = [self.scope["method"].encode(), b" ", self.url, b" HTTP/", self.scope["http_version"].encode(), b"\r\n"]
        for name, value in self.headers:
            if name != b"upgrade":
                head += [name, b": ", value, b"\r\n"]
        self.parser = httptools.HttpRequestParser(self)
        self.data_received(b"".join([*head, b"\r\n", rest]))

    def _await_head(self) -> None:
        self._head_is_here()
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self.timeout_keep_alive_handler)

    def _head_is_here(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
