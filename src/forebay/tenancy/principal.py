"""Who calls."""

from dataclasses import dataclass
from typing import Literal

PriorityName = Literal["interactive", "standard", "batch"]

PRIORITY_NAMES: tuple[PriorityName, ...] = ("interactive", "standard", "batch")
"""The three classes, first served first."""


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller whose key was accepted. `tenant_id` also separates the prefix caches of tenants."""

    tenant_id: str
    key_id: str
    allowed_classes: frozenset[PriorityName]
