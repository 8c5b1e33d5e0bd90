"""Tenants, keys, quotas, platform prompts; the audit log and the count of changes.

Downgrading below this drops all of it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _identifier() -> sa.String:
    return sa.String(400).with_variant(sa.String(400, collation="C"), "postgresql")


def _of_the_row() -> tuple[sa.Column[int], sa.Column[float]]:
    return sa.Column("revision", sa.Integer, nullable=False), sa.Column("updated_at", sa.Double, nullable=False)


def upgrade() -> None:
    _create_tenants()
    _create_keys()
    _create_quotas()
    op.create_table(
        "prompts",
        sa.Column("id", _identifier(), primary_key=True),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("models", sa.JSON(none_as_null=True)),
        *_of_the_row(),
    )
    _create_audit_log()


def downgrade() -> None:
    for name in ("change_count", "audit_log", "prompts", "quotas", "keys", "tenants"):
        op.drop_table(name)


def _create_tenants() -> None:
    op.create_table(
        "tenants",
        sa.Column("id", _identifier(), primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("default_class", sa.String(32), nullable=False),
        sa.Column("highest_class", sa.String(32), nullable=False),
        sa.Column("allow_fallback", sa.Boolean, nullable=False),
        sa.Column("canary", sa.Boolean, nullable=False),
        sa.Column("log_content", sa.Boolean, nullable=False),
        sa.Column("replay_outputs", sa.Boolean, nullable=False),
        sa.Column("log_retention_days", sa.Integer, nullable=False),
        sa.Column("disabled", sa.Boolean, nullable=False),
        *_of_the_row(),
    )


def _create_keys() -> None:
    op.create_table(
        "keys",
        sa.Column("id", _identifier(), primary_key=True),
        sa.Column("tenant", _identifier(), sa.ForeignKey("tenants.id", name="keys_tenant_fkey"), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("scopes", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("models", sa.JSON(none_as_null=True)),
        sa.Column("tags", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("expires_at", sa.Double),
        sa.Column("disabled", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("previous_hash", sa.String(64)),
        sa.Column("previous_expires_at", sa.Double),
        *_of_the_row(),
        sa.UniqueConstraint("hash", name="keys_hash_key"),
        sa.UniqueConstraint("previous_hash", name="keys_previous_hash_key"),
        sa.UniqueConstraint("id", "tenant", name="keys_id_tenant_key"),
    )
    op.create_index("keys_tenant_index", "keys", ["tenant"])


def _create_quotas() -> None:
    op.create_table(
        "quotas",
        sa.Column("id", _identifier(), primary_key=True),
        sa.Column("tenant", _identifier(), sa.ForeignKey("tenants.id", name="quotas_tenant_fkey"), nullable=False),
        sa.Column("alias", sa.Text),
        sa.Column("key", _identifier()),
        sa.Column("tokens_per_minute", sa.Integer),
        sa.Column("token_burst", sa.Integer),
        sa.Column("requests_per_minute", sa.Integer),
        sa.Column("request_burst", sa.Integer),
        sa.Column("concurrent_requests", sa.Integer),
        sa.Column("max_tokens", sa.Integer),
        sa.Column("monthly_budget_nanos", sa.BigInteger),
        *_of_the_row(),
        sa.ForeignKeyConstraint(["key", "tenant"], ["keys.id", "keys.tenant"], name="quotas_key_fkey"),
    )
    place = ["tenant", sa.text("coalesce(alias, '')"), sa.text("coalesce(key, '')")]
    op.create_index("quotas_place_key", "quotas", place, unique=True)


def _create_audit_log() -> None:
    op.create_table(
        "audit_log",
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("action", sa.String(32), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("id", _identifier(), nullable=False),
        sa.Column("before", sa.JSON(none_as_null=True)),
        sa.Column("after", sa.JSON(none_as_null=True)),
    )
    op.create_index("audit_log_resource_index", "audit_log", ["kind", "id"])
    count = op.create_table(
        "change_count",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("number", sa.BigInteger, nullable=False),
    )
    op.bulk_insert(count, [{"id": 1, "number": 0}])
