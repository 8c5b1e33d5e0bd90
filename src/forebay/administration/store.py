"""Where the configuration is kept."""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, Literal, Protocol, TypeVar

import msgspec

from forebay.administration.kinds import Kind
from forebay.metering.pricing import Price
from forebay.tenancy.resources import ApiKey, PlatformPrompt, Quota, Tenant

R = TypeVar("R", bound=msgspec.Struct)

AuditAction = Literal["create", "replace", "delete", "rotate"]
AUDIT_FILTERS = ("kind", "id", "actor")
"""The fields by which the audit log can be narrowed."""


class Stored(msgspec.Struct, Generic[R], frozen=True):
    """A row, and how often it was written: 1 when it is new. Time in Unix seconds."""

    value: R
    revision: int
    updated_at: float


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One change. `number` counts all changes of the configuration, without gaps. `actor` is the key id that made it.
    `before` and `after` are the rows without their secrets; None where there was or is none.
    """

    number: int
    at: float
    actor: str
    action: AuditAction
    kind: str
    id: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """All of the configuration, as of one `change` number."""

    change: int
    tenants: Sequence[Tenant]
    keys: Sequence[ApiKey]
    quotas: Sequence[Quota]
    prices: Sequence[Price]
    prompts: Sequence[PlatformPrompt]


class ConfigurationStore(Protocol):
    """Blocking: called in threads, by several gateways at once. Each call is one transaction.

    All raise StoreUnavailable where the database cannot be reached.
    """

    def change_number(self) -> int:
        """How many changes there were: the number of the last audit entry, 0 where there is none."""
        ...

    def contents(self) -> Contents: ...

    def get(self, kind: Kind[R], id_: str) -> Stored[R] | None: ...

    def page(self, kind: Kind[R], *, after: str | None, limit: int, where: Mapping[str, str]) -> Sequence[Stored[R]]:
        """In the order of ids, those beyond `after`, `limit` at most. `where` is field → exact value, of the kind's
        `filters`.
        """
        ...

    def create(self, kind: Kind[R], value: R, *, actor: str, at: float) -> Stored[R]:
        """Raises Conflict where the id is taken, ResourceNotFound where it names a tenant or key that is not there."""
        ...

    def replace(
        self, kind: Kind[R], value: R, *, expected: int | None, actor: str, at: float, action: AuditAction = "replace"
    ) -> Stored[R]:
        """Raises ResourceNotFound, and PreconditionFailed where its revision is not the `expected` one. What is equal
        to what is there changes nothing, nor its revision, and is not in the audit log.
        """
        ...

    def delete(self, kind: Kind[R], id_: str, *, expected: int | None, actor: str, at: float) -> None:
        """Raises ResourceNotFound, PreconditionFailed, and Conflict where others name it (a tenant that has keys)."""
        ...

    def audit(self, *, before: int | None, limit: int, where: Mapping[str, str]) -> Sequence[AuditEntry]:
        """Newest first, those of a lower number than `before`. `where` is field → exact value, of `AUDIT_FILTERS`."""
        ...

    def note_key_use(self, last_used: Mapping[str, float]) -> None:
        """Keep when keys were last used (key id → Unix seconds): no change of the configuration. Never goes back."""
        ...

    def key_use(self, ids: Sequence[str]) -> Mapping[str, float]:
        """When each was last used, without those that never were."""
        ...
