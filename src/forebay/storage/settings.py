"""Settings of where the platform keeps what it must not forget."""

from typing import Annotated

import msgspec


class StorageSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One process keeps everything in its data directory; gateways that share their state name servers here."""

    database: Annotated[str, msgspec.Meta(pattern=r"^(sqlite:///|postgresql://)")] | None = None
    """Tenants, keys, quotas, prices, prompts and the audit log: `sqlite:///PATH` or
    `postgresql://USER:PASSWORD@HOST/NAME`. None: `forebay.db` in the data directory."""
    counters: Annotated[str, msgspec.Meta(pattern=r"^(valkey|valkeys|redis|rediss|unix)://")] | None = None
    """Rate limits, budgets and leases that several gateways share: `valkey://HOST:PORT/0`. None: in this process."""
    objects: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    """The usage warehouse, and the prompts and outputs of tenants that opted in: a directory or `s3://BUCKET/PREFIX`.
    None: `objects` in the data directory."""
    objects_endpoint: Annotated[str, msgspec.Meta(pattern=r"^https?://")] | None = None
    """Of an S3-compatible server other than Amazon's."""
    objects_region: str | None = None
    """For S3."""
    objects_access_key: str | None = None
    """For S3. None: as the machine's own credentials say."""
    objects_secret_key: str | None = None
    """For S3."""
