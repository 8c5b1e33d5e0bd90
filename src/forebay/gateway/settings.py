"""Settings of the platform's door."""

from typing import Annotated

import msgspec

from forebay.web.body import DEFAULT_BODY_TIMEOUT_S


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the gateway listens and what it takes."""

    host: Annotated[str, msgspec.Meta(min_length=1)] = "127.0.0.1"
    """Address to listen on; `0.0.0.0` is every network of this machine."""
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 8000
    """Port to listen on; 0 takes any free one."""
    max_body_mb: Annotated[float, msgspec.Meta(gt=0, le=1024)] = 8.0
    """Largest request body, in MiB."""
    body_timeout_s: Annotated[float, msgspec.Meta(gt=0, le=3600)] = DEFAULT_BODY_TIMEOUT_S
    """How long a request's body may take to arrive, in seconds."""
    drain_timeout_s: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 30.0
    """How long running requests may go on after the gateway was told to stop, in seconds."""
