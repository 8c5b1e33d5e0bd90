"""One inference request, and the request that a replica is sent for it."""

import hashlib
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from forebay.engine.request import PriorityClass
from forebay.fleet.replica import Endpoint
from forebay.tenancy.principal import Principal, PriorityName

Route = Literal["chat/completions", "completions"]
"""The path below `/v1`."""

_Fields = dict[str, msgspec.Raw]
_fields = msgspec.json.Decoder(_Fields)


@dataclass(frozen=True, slots=True)
class Repeat:
    """What a request with an `Idempotency-Key` is known by: digests of tenant and key, and of what it asks for."""

    digest: str
    fingerprint: str

    @classmethod
    def of(cls, tenant_id: str, key: str, entrance: str, body: bytes) -> "Repeat":
        digest = hashlib.sha256(f"{len(tenant_id)}:{tenant_id}{key}".encode()).hexdigest()
        return cls(digest, hashlib.sha256(entrance.encode() + b"\0" + body).hexdigest())


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceRequest:
    """What a caller asked for. `body` is the JSON object as it came, already found valid.

    `id` is unique and names its usage record; `request_id` is what the caller is told, who may have chosen it.
    `entrance` is the path below `/v1` by which it came, `arrived` the clock's time then.
    """

    id: str
    request_id: str
    entrance: str
    route: Route
    alias: str
    stream: bool
    body: bytes
    principal: Principal
    priority: PriorityName
    arrived: float
    repeat: Repeat | None = None


def outbound_body(request: InferenceRequest, endpoint: Endpoint, *, output_cap: int | None) -> bytes:
    """The caller's JSON object with the replica's model name, and with the priority and the tenant's cache salt where
    the replica knows them. A caller's own are never passed on; every other field keeps its bytes, known to us or not.

    A stream is asked to tell its usage, where it can with every event. With an `output_cap` no answer is longer.
    """
    fields = _fields.decode(request.body)
    fields.pop("priority", None)
    fields.pop("cache_salt", None)
    fields["model"] = _raw(endpoint.model)
    if endpoint.takes_priority:
        fields["priority"] = _raw(int(PriorityClass[request.priority.upper()]))
        fields["cache_salt"] = _raw(request.principal.tenant_id)
    if request.stream:
        fields["stream_options"] = _stream_options(fields.get("stream_options"), running=endpoint.takes_priority)
    if output_cap is not None:
        fields.pop("max_completion_tokens", None)
        fields["max_tokens"] = _raw(output_cap)
    return msgspec.json.encode(fields)


def _stream_options(given: msgspec.Raw | None, *, running: bool) -> msgspec.Raw:
    try:
        options: dict[str, Any] = msgspec.json.decode(given or b"{}", type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        # For the replica to refuse.
        return given or _raw({})
    options["include_usage"] = True
    if running:
        options["continuous_usage_stats"] = True
    return _raw(options)


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))
