"""Which pool a model name stands for."""

from collections.abc import Mapping
from dataclasses import dataclass

from forebay.core.errors import ModelNotFound

MAX_NAMES_IN_ERROR = 20


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A name that tenants use, and the pool that serves it."""

    alias: str
    pool: str


class Catalog:
    """The aliases known at the start."""

    def __init__(self, aliases: Mapping[str, str]) -> None:
        self._entries = {alias: CatalogEntry(alias, pool) for alias, pool in aliases.items()}

    def resolve(self, alias: str) -> CatalogEntry:
        """Raises ModelNotFound, naming what there is."""
        entry = self._entries.get(alias)
        if entry is None:
            known = sorted(self._entries)[:MAX_NAMES_IN_ERROR]
            raise ModelNotFound(
                f"The model {alias[:100]!r} does not exist here. Known models: {', '.join(known) or 'none'}.",
                param="model",
            )
        return entry

    def entries(self) -> tuple[CatalogEntry, ...]:
        """In the order of the configuration."""
        return tuple(self._entries.values())
