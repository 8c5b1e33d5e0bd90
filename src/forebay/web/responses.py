"""Whole responses."""

from typing import Any

import msgspec
from litestar.response.base import ASGIResponse


def json_response(value: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> ASGIResponse:
    """`value`, anything that msgspec can encode, as JSON."""
    return ASGIResponse(
        body=msgspec.json.encode(value), status_code=status, headers=headers, media_type="application/json"
    )
