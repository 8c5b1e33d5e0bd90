"""A Litestar application as all surfaces of Forebay are built."""

from collections.abc import Sequence

from litestar import Litestar
from litestar.types import ControllerRouterHandler

from forebay.web.access_log import AccessLogMiddleware
from forebay.web.head import HeadMiddleware
from forebay.web.problems import exception_handlers
from forebay.web.request_id import RequestIdMiddleware
from forebay.web.running import watch_requests


def build_app(route_handlers: Sequence[ControllerRouterHandler]) -> Litestar:
    """An application of these routes, whose every response has a request id and whose every error is a problem.

    Handlers take a `Request` alone and read its body with `web.body`.
    """
    app = Litestar(
        route_handlers=route_handlers,
        exception_handlers=exception_handlers(),
        logging_config=None,
        openapi_config=None,
        request_max_body_size=None,
    )
    # Litestar runs its middleware only behind a route that matched; these see unknown paths and methods too.
    watched = watch_requests(app, HeadMiddleware(app.asgi_handler))
    app.asgi_handler = RequestIdMiddleware(AccessLogMiddleware(watched))
    return app
