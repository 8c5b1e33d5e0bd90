"""HEAD is GET without the body."""

from litestar.types import ASGIApp, Message, Receive, Scope, Send


class HeadMiddleware:
    """Answers HEAD wherever GET is answered."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_without_body(message: Message) -> None:
            if message["type"] == "http.response.body":
                message["body"] = b""
            await send(message)

        # A copy: the server must go on knowing that it answers a HEAD.
        await self._app({**scope, "method": "GET"}, receive, send_without_body)
