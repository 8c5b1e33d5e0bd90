"""Which pool a model name stands for."""

from collections.abc import Mapping
from dataclasses import dataclass

from forebay.core.errors import ModelNotFound

MAX_NAMES_IN_ERROR = 20


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """What a pool serves: `name` says which model it is, `precision` that of its weights where that is known."""

    name: str
    precision: str | None = None


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A name that tenants use, the pool that serves it, and what that serves."""

    alias: str
    pool: str
    version: ModelVersion


class Catalog:
    """The aliases known at the start: alias → pool, pool → what it serves."""

    def __init__(self, aliases: Mapping[str, str], versions: Mapping[str, ModelVersion]) -> None:
        self._entries = {alias: CatalogEntry(alias, pool, versions[pool]) for alias, pool in aliases.items()}

    def resolve(self, alias: str, allowed: frozenset[str] | None = None) -> CatalogEntry:
        """With `allowed`, there are no other names. Raises ModelNotFound, naming what there is."""
        entry = self._entries.get(alias)
        if entry is None or not (allowed is None or alias in allowed):
            known = [each.alias for each in self.entries(allowed)]
            raise ModelNotFound(
                f"The model {alias[:100]!r} does not exist here. Known models: "
                f"{', '.join(sorted(known)[:MAX_NAMES_IN_ERROR]) or 'none'}.",
                param="model",
            )
        return entry

    def entries(self, allowed: frozenset[str] | None = None) -> tuple[CatalogEntry, ...]:
        """In the order of the configuration."""
        return tuple(entry for alias, entry in self._entries.items() if allowed is None or alias in allowed)
