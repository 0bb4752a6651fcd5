"""Credit that runs low: what organizations want to be told, and what they were."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "credit_watch",
        sa.Column("org", sa.String(), nullable=False),
        sa.Column("thresholds", sa.JSON(), nullable=False),
        sa.Column("granted_nanousd", sa.BigInteger(), nullable=False),
        sa.Column("left_nanousd", sa.BigInteger(), nullable=False),
        sa.Column("below", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("org"),
    )
    op.create_table(
        "credit_alert",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("org", sa.String(), nullable=False),
        sa.Column("unit", sa.String(), nullable=False),
        sa.Column("threshold", sa.BigInteger(), nullable=False),
        sa.Column("limit_nanousd", sa.BigInteger(), nullable=False),
        sa.Column("left_nanousd", sa.BigInteger(), nullable=False),
        sa.Column("granted_nanousd", sa.BigInteger(), nullable=False),
        sa.Column("raised_us", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("unit IN ('nanousd','percent')", name="unit_known"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("credit_alert_raised", "credit_alert", ["raised_us"])
    op.create_index("credit_alert_org", "credit_alert", ["org", "raised_us"])


def downgrade() -> None:
    for table in ("credit_alert", "credit_watch"):
        op.drop_table(table)
