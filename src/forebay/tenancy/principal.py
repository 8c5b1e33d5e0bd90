"""Who calls."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

PriorityName = Literal["interactive", "standard", "batch"]
Scope = Literal["inference", "retrieval", "usage", "admin"]

PRIORITY_NAMES: tuple[PriorityName, ...] = ("interactive", "standard", "batch")
"""The three classes, first served first."""
SCOPES: tuple[Scope, ...] = ("inference", "retrieval", "usage", "admin")
"""What a key may be for: calling models, vector search, reading the tenant's own usage, operating the platform."""


def classes_up_to(highest: PriorityName) -> frozenset[PriorityName]:
    """`highest` and all below it."""
    return frozenset(PRIORITY_NAMES[PRIORITY_NAMES.index(highest) :])


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """A caller whose key was accepted. `tenant_id` also separates the prefix caches of tenants.

    `models` are the aliases that the key may call, None is all. `tags` go into usage records. What the tenant has opted
    in to: `allow_fallback`, `canary`, `log_content` (prompts and outputs are stored), `replay_outputs`.
    """

    tenant_id: str
    key_id: str
    scopes: frozenset[Scope]
    default_class: PriorityName
    allowed_classes: frozenset[PriorityName]
    models: frozenset[str] | None = None
    tags: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    allow_fallback: bool = False
    canary: bool = False
    log_content: bool = False
    replay_outputs: bool = False
