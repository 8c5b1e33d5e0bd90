"""How resources are told: without secrets."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from forebay.administration.kinds import KEYS, Kind
from forebay.administration.store import Stored


def row(kind: Kind[Any], stored: Stored[Any], last_used: Mapping[str, float]) -> dict[str, Any]:
    """The JSON members of a resource. `last_used`: key id → Unix seconds."""
    members = {"object": kind.noun, **_told(kind, stored.value)}
    if kind is KEYS:
        members["last_used_at"] = last_used.get(stored.value.id)
    return {**members, "revision": stored.revision, "updated_at": stored.updated_at}


def _told(kind: Kind[Any], value: msgspec.Struct) -> dict[str, Any]:
    fields = msgspec.structs.asdict(value)
    return {name: _plain(field) for name, field in fields.items() if name not in kind.secrets}


def _plain(field: Any) -> Any:
    """An amount without an exponent: 0.000000001, not 1E-9."""
    return f"{field:f}" if isinstance(field, Decimal) else field
