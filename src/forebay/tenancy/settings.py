"""Settings of the tenants that may call."""

from typing import Annotated

import msgspec

from forebay.tenancy.principal import PRIORITY_NAMES, PriorityName

TenantId = Annotated[str, msgspec.Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*\Z")]


class TenancySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The default tenant and its key."""

    default_tenant: TenantId = "default"
    """The tenant that the key belongs to."""
    api_key: Annotated[str, msgspec.Meta(min_length=16, max_length=512)] | None = None
    """The key that callers send. None: one is made at the first start and kept in the data directory."""
    allowed_classes: tuple[PriorityName, ...] = PRIORITY_NAMES
    """The priority classes that the default tenant may ask for."""
