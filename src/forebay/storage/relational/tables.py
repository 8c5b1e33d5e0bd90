"""The tables as the newest migration leaves them.

One for each kind, named like it; a column for each field, named like it, but that dollars (`…_usd…`) are kept as
integer nano-dollars (`…_nanos…`). Lists and maps are JSON. `revision` and `updated_at` are the row's.
"""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

# Ids are compared byte by byte, in every database and whatever its language.
IDENTIFIER = String(400).with_variant(String(400, collation="C"), "postgresql")
LIST_OR_MAP = JSON(none_as_null=True)

METADATA = MetaData()

TENANTS = Table(
    "tenants",
    METADATA,
    Column("id", IDENTIFIER, primary_key=True),
    Column("name", Text, nullable=False),
    Column("default_class", String(32), nullable=False),
    Column("highest_class", String(32), nullable=False),
    Column("allow_fallback", Boolean, nullable=False),
    Column("canary", Boolean, nullable=False),
    Column("log_content", Boolean, nullable=False),
    Column("replay_outputs", Boolean, nullable=False),
    Column("log_retention_days", Integer, nullable=False),
    Column("disabled", Boolean, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("updated_at", Double, nullable=False),
)

KEYS = Table(
    "keys",
    METADATA,
    Column("id", IDENTIFIER, primary_key=True),
    Column("tenant", IDENTIFIER, ForeignKey("tenants.id", name="keys_tenant_fkey"), nullable=False),
    Column("name", Text, nullable=False),
    Column("scopes", LIST_OR_MAP, nullable=False),
    Column("models", LIST_OR_MAP),
    Column("tags", LIST_OR_MAP, nullable=False),
    Column("expires_at", Double),
    Column("disabled", Boolean, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("hash", String(64), nullable=False),
    Column("previous_hash", String(64)),
    Column("previous_expires_at", Double),
    Column("revision", Integer, nullable=False),
    Column("updated_at", Double, nullable=False),
    UniqueConstraint("hash", name="keys_hash_key"),
    UniqueConstraint("previous_hash", name="keys_previous_hash_key"),
    # What quotas refer to: a quota for a key is its own tenant's.
    UniqueConstraint("id", "tenant", name="keys_id_tenant_key"),
    Index("keys_tenant_index", "tenant"),
)

QUOTAS = Table(
    "quotas",
    METADATA,
    Column("id", IDENTIFIER, primary_key=True),
    Column("tenant", IDENTIFIER, ForeignKey("tenants.id", name="quotas_tenant_fkey"), nullable=False),
    Column("alias", Text),
    Column("key", IDENTIFIER),
    Column("tokens_per_minute", Integer),
    Column("token_burst", Integer),
    Column("requests_per_minute", Integer),
    Column("request_burst", Integer),
    Column("concurrent_requests", Integer),
    Column("max_tokens", Integer),
    Column("monthly_budget_nanos", BigInteger),
    Column("revision", Integer, nullable=False),
    Column("updated_at", Double, nullable=False),
    ForeignKeyConstraint(["key", "tenant"], ["keys.id", "keys.tenant"], name="quotas_key_fkey"),
    Index("quotas_place_key", "tenant", text("coalesce(alias, '')"), text("coalesce(key, '')"), unique=True),
)

PROMPTS = Table(
    "prompts",
    METADATA,
    Column("id", IDENTIFIER, primary_key=True),
    Column("text", Text, nullable=False),
    Column("models", LIST_OR_MAP),
    Column("revision", Integer, nullable=False),
    Column("updated_at", Double, nullable=False),
)

PRICES = Table(
    "prices",
    METADATA,
    Column("id", IDENTIFIER, primary_key=True),
    Column("model", Text, nullable=False),
    Column("priority", String(32), nullable=False),
    Column("prompt_nanos_per_million", BigInteger, nullable=False),
    Column("cached_nanos_per_million", BigInteger),
    Column("output_nanos_per_million", BigInteger, nullable=False),
    Column("effective_from", Double, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("updated_at", Double, nullable=False),
)

AUDIT_LOG = Table(
    "audit_log",
    METADATA,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", String(32), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("id", IDENTIFIER, nullable=False),
    Column("before", LIST_OR_MAP),
    Column("after", LIST_OR_MAP),
    Index("audit_log_resource_index", "kind", "id"),
)

CHANGE_COUNT = Table(
    "change_count",
    METADATA,
    # One row, id 1: the number of the last change. Whoever changes anything locks it first.
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("number", BigInteger, nullable=False),
)

KEY_USE = Table(
    "key_use",
    METADATA,
    Column("id", IDENTIFIER, ForeignKey("keys.id", name="key_use_id_fkey", ondelete="CASCADE"), primary_key=True),
    Column("last_used_at", Double, nullable=False),
)
