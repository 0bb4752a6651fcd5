"""Budgets over windows: what they are, what counts against them, and their alerts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "budget",
        sa.Column("budget_id", sa.String(), nullable=False),
        sa.Column("org", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("end_user", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("amount_nanousd", sa.BigInteger(), nullable=False),
        sa.Column("is_hard", sa.Boolean(), nullable=False),
        sa.Column("window", sa.String(), nullable=False),
        sa.Column("zone", sa.String(), nullable=True),
        sa.Column("anchor", sa.String(), nullable=True),
        sa.Column("span_s", sa.BigInteger(), nullable=True),
        sa.Column("alert_percents", sa.JSON(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("ended_us", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("amount_nanousd >= 0", name="budget_not_negative"),
        sa.CheckConstraint(
            "(\"window\" = 'rolling') = (span_s IS NOT NULL) AND "
            "(\"window\" IN ('day','week','month','year')) = (zone IS NOT NULL) AND "
            "(zone IS NULL) = (anchor IS NULL) AND "
            "\"window\" IN ('total','rolling','day','week','month','year')",
            name="budget_window_whole",
        ),
        sa.PrimaryKeyConstraint("budget_id"),
    )
    op.create_index("budget_owner", "budget", ["owner"])
    op.create_index("budget_org", "budget", ["org"])
    op.create_table(
        "budget_spent",
        sa.Column("budget_id", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("bucket_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("until_us", sa.BigInteger(), nullable=False),
        sa.Column("amount_nanousd", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("budget_id", "subject", "bucket_us"),
        sqlite_with_rowid=False,
    )
    op.create_index("budget_spent_until", "budget_spent", ["until_us"])
    op.create_table(
        "usage_budget",
        sa.Column("rid", sa.String(), nullable=False),
        sa.Column("budget_id", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("bucket_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("rid", "budget_id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "budget_alert",
        sa.Column("budget_id", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("bucket_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("percent", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("org", sa.String(), nullable=False),
        sa.Column("spent_nanousd", sa.BigInteger(), nullable=False),
        sa.Column("amount_nanousd", sa.BigInteger(), nullable=False),
        sa.Column("raised_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("budget_id", "subject", "bucket_us", "percent"),
    )
    op.create_index("budget_alert_raised", "budget_alert", ["raised_us"])
    op.create_index("budget_alert_org", "budget_alert", ["org", "raised_us"])


def downgrade() -> None:
    for table in ("budget_alert", "usage_budget", "budget_spent", "budget"):
        op.drop_table(table)
