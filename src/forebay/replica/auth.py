"""The one key of a replica."""

import hmac
from collections.abc import Callable
from typing import Any

from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from forebay.core.errors import InvalidApiKey

Guard = Callable[[ASGIConnection[Any, Any, Any, Any], BaseRouteHandler], None]


def api_key_guards(api_key: str | None) -> list[Guard]:
    """Litestar's `guards` for routes that want the key, where there is one."""
    if api_key is None:
        return []
    expected = api_key.encode()

    def require_key(connection: ASGIConnection[Any, Any, Any, Any], _handler: BaseRouteHandler) -> None:
        scheme, _, given = connection.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), expected):
            raise InvalidApiKey("Send this replica's API key as `Authorization: Bearer …`.")

    return [require_key]
