"""Prices, and when each key was last used.

Downgrading below this drops both: prices have to be entered again, and every key counts as never used. The audit log
keeps the prices' changes.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def _identifier() -> sa.String:
    return sa.String(400).with_variant(sa.String(400, collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "prices",
        sa.Column("id", _identifier(), primary_key=True),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("priority", sa.String(32), nullable=False),
        sa.Column("prompt_nanos_per_million", sa.BigInteger, nullable=False),
        sa.Column("cached_nanos_per_million", sa.BigInteger),
        sa.Column("output_nanos_per_million", sa.BigInteger, nullable=False),
        sa.Column("effective_from", sa.Double, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("updated_at", sa.Double, nullable=False),
    )
    key = sa.ForeignKey("keys.id", name="key_use_id_fkey", ondelete="CASCADE")
    op.create_table(
        "key_use",
        sa.Column("id", _identifier(), key, primary_key=True),
        sa.Column("last_used_at", sa.Double, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("key_use")
    op.drop_table("prices")
