"""One line of log for each request."""

import time

import structlog
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from forebay.web.request_id import request_id

logger = structlog.get_logger(__name__)

_QUIET_PATHS = frozenset({"/health", "/metrics"})
"""Asked for every few seconds by machines."""


class AccessLogMiddleware:
    """Logs method, path, status and duration once the response has ended. Never a header, a query or a body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.monotonic()
        status: int | None = None

        async def send_and_note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        finally:
            log = logger.debug if scope["path"] in _QUIET_PATHS else logger.info
            log(
                "request",
                request_id=request_id(scope),
                method=scope.get("method"),
                path=scope["path"],
                status=status,
                duration_s=round(time.monotonic() - started, 6),
            )
