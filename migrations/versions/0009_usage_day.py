"""Usage is summed by the day, too: a month of all tenants reads a twenty-fourth of the rows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0006"
branch_labels = None
depends_on = None

DAY_US = 86_400_000_000
DIMENSIONS = ("org", "project", "key", "model", "tier", "batch", "pool", "status", "month")
SUMMED = (
    "requests",
    "input",
    "cached_input",
    "output",
    "amount_nanousd",
    "input_nanousd",
    "cached_input_nanousd",
    "output_nanousd",
    "request_nanousd",
)


def upgrade() -> None:
    op.create_table(
        "usage_day",
        sa.Column("day_us", sa.BigInteger(), autoincrement=False, nullable=False),
        *(sa.Column(name, _type(name), nullable=False) for name in DIMENSIONS),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in SUMMED),
        sa.PrimaryKeyConstraint("day_us", *DIMENSIONS),
        sqlite_with_rowid=False,
    )
    op.create_index("usage_day_org", "usage_day", ["org", "day_us"])
    op.execute(_fill())


def downgrade() -> None:
    op.drop_table("usage_day")


def _type(name: str) -> sa.types.TypeEngine[bool] | sa.types.TypeEngine[str]:
    return sa.Boolean() if name == "batch" else sa.String()


def _fill() -> str:
    day = f"hour_us - hour_us % {DAY_US}"
    names = ", ".join(DIMENSIONS)
    sums = ", ".join(f"sum({name})" for name in SUMMED)
    return (
        f"INSERT INTO usage_day (day_us, {names}, {', '.join(SUMMED)}) "
        f"SELECT {day}, {names}, {sums} FROM usage_hour GROUP BY {day}, {names}"
    )
