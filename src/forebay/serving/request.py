"""One inference request, and the request that a replica is sent for it."""

from dataclasses import dataclass
from typing import Literal

import msgspec

from forebay.engine.request import PriorityClass
from forebay.fleet.replica import Endpoint
from forebay.tenancy.principal import Principal, PriorityName

Route = Literal["chat/completions", "completions"]
"""The path below `/v1`."""

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True, slots=True)
class InferenceRequest:
    """What a caller asked for. `body` is the JSON object as it came, already found valid."""

    route: Route
    alias: str
    stream: bool
    body: bytes
    principal: Principal
    priority: PriorityName


def outbound_body(request: InferenceRequest, endpoint: Endpoint) -> bytes:
    """The caller's JSON object with the replica's model name, and with the priority and the tenant's cache salt where
    the replica knows them. A caller's own are never passed on; every other field keeps its bytes, known to us or not.
    """
    fields = _fields.decode(request.body)
    fields.pop("priority", None)
    fields.pop("cache_salt", None)
    fields["model"] = _raw(endpoint.model)
    if endpoint.takes_priority:
        fields["priority"] = _raw(int(PriorityClass[request.priority.upper()]))
        fields["cache_salt"] = _raw(request.principal.tenant_id)
    return msgspec.json.encode(fields)


def _raw(value: str | int) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))
