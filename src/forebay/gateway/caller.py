"""Who sends a request."""

from typing import Any

from litestar import Request

from forebay.tenancy.authenticator import Authenticator
from forebay.tenancy.principal import Principal

ANTHROPIC_KEY_HEADER = "x-api-key"
"""Where Anthropic's clients send a key."""


def caller(authenticator: Authenticator, request: Request[Any, Any, Any], key_header: str | None) -> Principal:
    """The principal of the request's key, which may come in the header `key_header` too. Raises InvalidApiKey."""
    key = request.headers.get(key_header) if key_header else None
    return authenticator.authenticate(request.headers.get("authorization"), key=key, key_header=key_header)
