"""Settings of one replica's HTTP surface."""

from typing import Annotated

import msgspec

from forebay.web.body import DEFAULT_BODY_TIMEOUT_S, DEFAULT_MAX_BODY_BYTES, BodyLimits


class ReplicaSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How one replica is reached."""

    served_model_name: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    """The name by which requests call the model; the model's own where none is given."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 8000
    """Port to listen on; 0 is any free one."""
    max_body_bytes: Annotated[int, msgspec.Meta(ge=1)] = DEFAULT_MAX_BODY_BYTES
    """Largest request body."""
    body_timeout_s: Annotated[float, msgspec.Meta(gt=0)] = DEFAULT_BODY_TIMEOUT_S
    """How long a request's body may take to arrive."""
    drain_timeout_s: Annotated[float, msgspec.Meta(ge=0)] = 30.0
    """How long a replica that is told to stop lets its generations run on."""
    api_key: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    """Where set, `Authorization: Bearer …` must carry it, except for /health and /metrics."""
    trust_public_prefix: bool = False
    """Believe the header that says how much of a prompt is a registered platform prompt. Only for a replica that nobody
    but a gateway can reach: whoever sends the header can look into the shared part of the prefix cache."""

    @property
    def body_limits(self) -> BodyLimits:
        return BodyLimits(self.max_body_bytes, self.body_timeout_s)

    def __repr__(self) -> str:
        """Without the key, as this may end in a log."""
        key = None if self.api_key is None else "…"
        return f"ReplicaSettings({self.served_model_name}, {self.host}:{self.port}, api_key={key})"
