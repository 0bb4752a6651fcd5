"""Exchange rates, and the one that an invoice froze."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0080"
down_revision = "0081"
branch_labels = None
depends_on = None

TABLE, FROZEN = "exchange_rate", "invoice_parties"


def upgrade() -> None:
    op.create_table(
        TABLE,
        sa.Column("currency", sa.String(), nullable=False),
        sa.Column("day", sa.String(), nullable=False),
        sa.Column("nano_per_usd", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("set_by", sa.String(), nullable=False),
        sa.Column("set_us", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("nano_per_usd > 0", name="exchange_rate_positive"),
        sa.PrimaryKeyConstraint("currency", "day"),
    )
    op.add_column(FROZEN, sa.Column("conversion", sa.JSON(), nullable=True))


def downgrade() -> None:
    op.drop_column(FROZEN, "conversion")
    op.drop_table(TABLE)
