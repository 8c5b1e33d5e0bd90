"""Which fields of each kind of resource are declared, and by which of them one is told from another."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from forebay.administration.kinds import KEYS, KINDS, PRICES, PROMPTS, QUOTAS, TENANTS, Kind
from forebay.config.checking import field_types

Fields = Mapping[str, Any]
"""One declared resource: every field of its section with its value."""

SETS = frozenset({"scopes", "models"})
"""Fields whose order says nothing."""


@dataclass(frozen=True, slots=True)
class Section:
    """`types` are the declared fields, constraints included; `defaults` those that may be left out. `stand_ins` are for
    what the server makes, where a whole row is to be checked.
    """

    kind: Kind[Any]
    identity: Sequence[str]
    types: Mapping[str, Any]
    defaults: Fields
    stand_ins: Fields

    def name_of(self, fields: Fields) -> str:
        """As people read it."""
        parts = [str(fields[name]) for name in self.identity if fields.get(name) is not None]
        return " ".join(parts)


def _section(kind: Kind[Any], *identity: str, stand_ins: Fields | None = None, **defaults: Any) -> Section:
    made = stand_ins or {}
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind.type):
        if field.default is not msgspec.NODEFAULT:
            found[field.name] = field.default
        elif field.default_factory is not msgspec.NODEFAULT:
            found[field.name] = field.default_factory()
    types = {name: type_ for name, type_ in field_types(kind.type).items() if name not in made}
    found = {name: ordered(name, value) for name, value in {**found, **defaults}.items() if name in types}
    return Section(kind, identity, types, found, made)


def ordered(name: str, value: Any) -> Any:
    """The value so that two of the same meaning are equal."""
    return tuple(sorted(set(value))) if name in SETS and value is not None else value


_TENANTS = _section(TENANTS, "id")
_KEYS = _section(
    KEYS,
    "tenant",
    "name",
    stand_ins={
        "id": "new",
        "created_at": 0.0,
        "hash": "0" * 64,
        "previous_hash": None,
        "previous_expires_at": None,
    },
)
_QUOTAS = _section(QUOTAS, "tenant", "alias", "key", stand_ins={"id": "new"})
_PRICES = _section(PRICES, "model", "priority", "effective_from", stand_ins={"id": "new"}, effective_from=None)
_PROMPTS = _section(PROMPTS, "id")

SECTIONS: Mapping[str, Section] = {
    section.kind.name: section for section in (_TENANTS, _KEYS, _QUOTAS, _PRICES, _PROMPTS)
}
"""By the kind's name, in an order in which each may name those before it."""

assert list(SECTIONS) == [kind.name for kind in KINDS]
