"""Settings of tenants and of what they may use."""

from typing import Annotated, Literal

import msgspec

from forebay.tenancy.principal import PriorityName

TenantId = Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*\Z")]


class TenancySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The operator's own key, and how quotas are kept."""

    default_tenant: TenantId = "default"
    """The tenant that the operator's key belongs to; made at the first start."""
    api_key: Annotated[str, msgspec.Meta(min_length=16, max_length=512)] | None = None
    """The operator's key, which may do everything. None: the first start makes one, kept in the data directory."""
    highest_class: PriorityName = "interactive"
    """The highest priority class that the default tenant, when it is made, may ask for."""
    refresh_s: Annotated[float, msgspec.Meta(gt=0, le=30)] = 2.0
    """How often a gateway looks whether tenants, keys, quotas, prices or prompts were changed elsewhere."""
    lease_ttl_s: Annotated[float, msgspec.Meta(ge=3, le=600)] = 15.0
    """How long what a request holds of its quotas is kept for a gateway that gives no sign of life; it gives one
    every third of that."""
    expected_output_tokens: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 256
    """What an answer without max_tokens is first taken to be long, until it is known how long a model's answers are."""
    without_counters: Literal["refuse", "share"] = "refuse"
    """What to do while the shared counters (storage.counters) cannot be reached: refuse requests of tenants that have
    quotas, or admit to each gateway its share of every limit."""
    gateways: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    """How many gateways share the counters: into so many shares `without_counters` = "share" parts each limit."""
    idempotency_ttl_s: Annotated[float, msgspec.Meta(gt=0, le=604800)] = 86400.0
    """How long an `Idempotency-Key` is remembered after its request has ended."""
