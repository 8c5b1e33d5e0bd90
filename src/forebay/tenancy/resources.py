"""What operators configure of tenants. Each is a row with an `id`; only `ApiKey` has a secret, and that is hashed."""

from decimal import Decimal
from typing import Annotated
from urllib.parse import quote

import msgspec

from forebay.core.money import MoneyError, nanos_of
from forebay.tenancy.principal import PriorityName, Scope
from forebay.tenancy.settings import TenantId

ResourceId = Annotated[str, msgspec.Meta(min_length=1, max_length=400, pattern=r"^[!-~]+\Z")]
Alias = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
Label = Annotated[str, msgspec.Meta(max_length=256)]
TagName = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
Limit = Annotated[int, msgspec.Meta(ge=0, le=100_000_000)]
"""Of a bucket; what is larger could not be kept exactly to the microsecond in 53 bits."""


MAX_BUDGET_USD = 9_000_000
"""What counts to the nano-dollar in 53 bits."""


class Tenant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One team. A disabled one's keys are refused. `log_retention_days` is for those who opted in to `log_content`."""

    id: TenantId
    name: Label = ""
    default_class: PriorityName = "standard"
    highest_class: PriorityName = "interactive"
    allow_fallback: bool = False
    canary: bool = False
    log_content: bool = False
    replay_outputs: bool = False
    log_retention_days: Annotated[int, msgspec.Meta(ge=1, le=3650)] = 30
    disabled: bool = False


class ApiKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One key of a tenant. Times in Unix seconds. `models` None is all aliases, `expires_at` None never.

    `hash` is SHA-256 of the key in hex. After a rotation `previous_hash` is accepted until `previous_expires_at`.
    """

    id: ResourceId
    tenant: TenantId
    name: Label = ""
    scopes: Annotated[tuple[Scope, ...], msgspec.Meta(min_length=1)] = ("inference", "retrieval", "usage")
    models: tuple[Alias, ...] | None = None
    tags: dict[TagName, Label] = {}
    expires_at: float | None = None
    disabled: bool = False
    created_at: float
    hash: str
    previous_hash: str | None = None
    previous_expires_at: float | None = None


class Quota(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much may be used: by all of `tenant`, by `tenant` of `alias`, or by the one `key`. None does not limit.

    A burst is what may be used at once after a pause; None is a whole minute's worth. `max_tokens` caps the output that
    one request may ask for, all of its choices apart. The month of `monthly_budget_usd` begins with its first day, UTC.
    """

    id: ResourceId
    tenant: TenantId
    alias: Alias | None = None
    key: ResourceId | None = None
    tokens_per_minute: Limit | None = None
    token_burst: Limit | None = None
    requests_per_minute: Limit | None = None
    request_burst: Limit | None = None
    concurrent_requests: Limit | None = None
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)] | None = None
    monthly_budget_usd: Decimal | None = None

    def __post_init__(self) -> None:
        if self.alias is not None and self.key is not None:
            raise ValueError("give `alias` or `key`, not both")
        for burst, rate in (("token_burst", "tokens_per_minute"), ("request_burst", "requests_per_minute")):
            if getattr(self, burst) is not None and getattr(self, rate) is None:
                raise ValueError(f"`{burst}` without `{rate}` limits nothing; give both")
        if self.monthly_budget_usd is not None:
            try:
                nanos_of(self.monthly_budget_usd)
            except MoneyError as error:
                raise ValueError(f"monthly_budget_usd: {error}") from None
            if self.monthly_budget_usd > MAX_BUDGET_USD:
                raise ValueError(f"monthly_budget_usd: expected at most {MAX_BUDGET_USD:,} USD; None does not limit")


class PlatformPrompt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A system prompt that the platform provides: its blocks in the prefix cache are shared by all tenants.

    `models` are the aliases that it is for; None is all.
    """

    id: ResourceId
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=200_000)]
    models: tuple[Alias, ...] | None = None


def quota_id(tenant: str, alias: str | None, key: str | None) -> str:
    """The id of the one quota for that; each has one at most."""
    if key is not None:
        return f"{tenant}:key:{key}"
    return tenant if alias is None else f"{tenant}:model:{quote(alias)}"
