"""The requests that are running, so that a server that stops can end them instead of dropping them."""

import asyncio

from litestar import Litestar
from litestar.response.base import ASGIResponse
from litestar.types import ASGIApp, Message, Receive, Scope, Send

from forebay.api import sse
from forebay.api.errors import PROBLEM_MEDIA_TYPE, headers, problem
from forebay.core.errors import CapacityUnavailable

_STATE_KEY = "forebay_running_requests"


class RunningRequests:
    """The requests of one application; all of one event loop."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[object]] = set()
        self.ended = False
        """Whether `end` was called: then nothing is taken any more."""

    def add(self, task: "asyncio.Task[object]") -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self, timeout_s: float) -> None:
        """End whatever runs, each with an answer that says so; wait until all are gone, `timeout_s` at most."""
        self.ended = True
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=timeout_s)


def running_requests(app: Litestar) -> RunningRequests:
    """Those of an application of `web.app.build_app`."""
    return app.state[_STATE_KEY]


def watch_requests(app: Litestar, inner: ASGIApp) -> "RunningMiddleware":
    """`inner`, whose requests become the `running_requests` of `app`."""
    requests = RunningRequests()
    app.state[_STATE_KEY] = requests
    return RunningMiddleware(inner, requests)


class RunningMiddleware:
    """Counts requests in and out, and answers for those that are ended from outside: with a problem where nothing was
    sent yet, else with the error event that ends a stream.
    """

    def __init__(self, app: ASGIApp, requests: RunningRequests) -> None:
        self._app = app
        self._requests = requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(send)
        task = asyncio.current_task()
        assert task is not None, "an application is called in a task"
        if not self._requests.ended:
            self._requests.add(task)
            try:
                await self._app(scope, receive, answer.send)
                return
            except asyncio.CancelledError:
                if not self._requests.ended:
                    raise
                # This cancellation was a request to answer, and it is being granted.
                task.uncancel()
        await answer.end(
            CapacityUnavailable("This server has stopped; send the request again.", retry_after_s=1.0), scope, receive
        )


class _Answer:
    """How far a response has come."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._started = False
        self._streaming = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            media_types = [value for name, value in message.get("headers", ()) if name.lower() == b"content-type"]
            self._streaming = any(value.startswith(sse.MEDIA_TYPE.encode()) for value in media_types)
            self._started = True
        elif not message.get("more_body", False):
            self._streaming = False
        await self._send(message)

    async def end(self, error: CapacityUnavailable, scope: Scope, receive: Receive) -> None:
        if not self._started:
            response = ASGIResponse(
                body=problem(error), status_code=error.status, headers=headers(error), media_type=PROBLEM_MEDIA_TYPE
            )
            await response(scope, receive, self._send)
        elif self._streaming:
            await self._send({"type": "http.response.body", "body": sse.error_event(error), "more_body": True})
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
