"""The kinds of things that operators configure."""

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from forebay.metering.pricing import Price
from forebay.tenancy.resources import ApiKey, PlatformPrompt, Quota, Tenant

R = TypeVar("R", bound=msgspec.Struct)

FILTERS = ("tenant", "alias", "key", "model", "priority")
"""The fields by which lists can be narrowed, where their kind has them."""


@dataclass(frozen=True, slots=True)
class Kind(Generic[R]):
    """One kind: `name` is its table and its path segment, `noun` what one of it is called, `type` the row, whose `id`
    is its key. The fields in `secrets` are never told, nor written into the audit log.
    """

    name: str
    noun: str
    type: type[R]
    secrets: frozenset[str] = frozenset()

    @property
    def filters(self) -> tuple[str, ...]:
        """The fields by which a list of it can be narrowed."""
        return tuple(name for name in FILTERS if name in self.type.__struct_fields__)


TENANTS = Kind("tenants", "tenant", Tenant)
KEYS = Kind("keys", "key", ApiKey, frozenset({"hash", "previous_hash"}))
QUOTAS = Kind("quotas", "quota", Quota)
PRICES = Kind("prices", "price", Price)
PROMPTS = Kind("prompts", "prompt", PlatformPrompt)

KINDS: tuple[Kind[Any], ...] = (TENANTS, KEYS, QUOTAS, PRICES, PROMPTS)
"""In an order in which each may name those before it."""
