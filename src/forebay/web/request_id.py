"""Each request has an id, which comes back with its response and stands in every line of the log."""

import re

from litestar.types import ASGIApp, Message, Receive, Scope, Send

from forebay.core.ids import new_id

HEADER = "X-Request-Id"
_HEADER_NAME = HEADER.lower().encode()
_ACCEPTED = re.compile(rb"[A-Za-z0-9._:/+=@-]{1,128}")
_STATE_KEY = "forebay_request_id"


def request_id(scope: Scope) -> str:
    """The id of the request of `scope`."""
    return scope["state"][_STATE_KEY]


class RequestIdMiddleware:
    """Takes the client's `X-Request-Id` where it is fit to be logged, else makes one; sends it with every response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = next((value for name, value in scope["headers"] if name == _HEADER_NAME), b"")
        id_ = given.decode("ascii") if _ACCEPTED.fullmatch(given) else new_id("req")
        scope["state"][_STATE_KEY] = id_
        header = (_HEADER_NAME, id_.encode("ascii"))

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), header]
            await send(message)

        await self._app(scope, receive, send_with_id)
