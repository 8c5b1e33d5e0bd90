"""Whoever may operate the platform, and what they send."""

from typing import Any

from litestar import Request

from forebay.api.admin import read_query
from forebay.gateway.caller import caller
from forebay.tenancy.authenticator import Authenticator, require_scope
from forebay.web.body import BodyLimits, read_body, require_json

AnyRequest = Request[Any, Any, Any]

LIMITS = BodyLimits(max_bytes=2 * 2**20, timeout_s=30.0)
"""The longest platform prompt fits, even with each of its characters escaped."""


def operator(authenticator: Authenticator, request: AnyRequest) -> str:
    """The id of the key that sends the request. Raises InvalidApiKey, PermissionDenied."""
    principal = caller(authenticator, request, None)
    require_scope(principal, "admin")
    return principal.key_id


async def json_body(request: AnyRequest) -> bytes:
    """Raises what `web.body.read_body` and `require_json` raise."""
    require_json(request)
    return await read_body(request, LIMITS)


def query_of(request: AnyRequest, *known: str) -> dict[str, str]:
    """The query's parameters, all of which are `known`. Raises InvalidRequest."""
    return read_query(request.query_params.multi_items(), known)
