"""What attempts bought by day, pool, and key of a provider, filled from the attempts there are."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0075"
down_revision = "0073"
branch_labels = None
depends_on = None

DAY_US = 86_400_000_000


def upgrade() -> None:
    op.create_table(
        "bought_day",
        sa.Column("day_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("replica", sa.String(), nullable=False),
        sa.Column("bought_nanousd", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("day_us", "pool", "replica"),
        sqlite_with_rowid=False,
    )
    op.execute(
        f"INSERT INTO bought_day SELECT e.ended_us - e.ended_us % {DAY_US}, a.pool, a.replica, "
        "sum(a.bought_nanousd) FROM attempt a JOIN usage_event e ON e.rid = a.rid "
        f"WHERE a.bought_nanousd <> 0 GROUP BY e.ended_us - e.ended_us % {DAY_US}, "
        "a.pool, a.replica"
    )


def downgrade() -> None:
    op.drop_table("bought_day")
