"""Months whose books are closed, and what the ledger had up to their ends when they were."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from migrations.guards import drop_functions_of_changes, forbid_changes

revision = "0074"
down_revision = "0068"
branch_labels = None
depends_on = None

TABLES = ("closed_period", "closed_period_total")


def upgrade() -> None:
    op.create_table(
        "closed_period",
        sa.Column("period", sa.String(), nullable=False),
        sa.Column("end_us", sa.BigInteger(), nullable=False),
        sa.Column("closed_by", sa.String(), nullable=False),
        sa.Column("closed_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("period"),
    )
    op.create_table(
        "closed_period_total",
        sa.Column("period", sa.String(), nullable=False),
        sa.Column("transfers", sa.BigInteger(), nullable=False),
        sa.Column("amount_nanousd", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["period"], ["closed_period.period"]),
        sa.PrimaryKeyConstraint("period"),
    )
    forbid_changes(*TABLES)


def downgrade() -> None:
    """An earlier revision would post to closed months: with any of them this fails."""
    if op.get_bind().scalar(sa.text("SELECT count(*) FROM closed_period")):
        raise RuntimeError("closed periods cannot go back to a revision before 0074")
    for table in reversed(TABLES):
        op.drop_table(table)
    drop_functions_of_changes(*TABLES)
