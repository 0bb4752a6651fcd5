"""Usage is summed by the hour; two indexes into the log that only sums asked for go."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

HOUR_US = 3_600_000_000
DIMENSIONS = ("org", "project", "key", "model", "tier", "batch", "pool", "status", "month")
COUNTS = (
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
        "usage_hour",
        sa.Column("hour_us", sa.BigInteger(), autoincrement=False, nullable=False),
        *(sa.Column(name, _type(name), nullable=False) for name in DIMENSIONS),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("requests", *COUNTS)),
        sa.PrimaryKeyConstraint("hour_us", *DIMENSIONS),
        sqlite_with_rowid=False,
    )
    op.create_index("usage_hour_org", "usage_hour", ["org", "hour_us"])
    op.execute(_fill())
    op.drop_index("usage_event_key_ended", "usage_event")
    op.drop_index("usage_event_model_ended", "usage_event")


def downgrade() -> None:
    op.create_index("usage_event_model_ended", "usage_event", ["model", "ended_us"])
    op.create_index("usage_event_key_ended", "usage_event", ["key", "ended_us"])
    op.drop_table("usage_hour")


def _type(name: str) -> sa.types.TypeEngine[bool] | sa.types.TypeEngine[str]:
    return sa.Boolean() if name == "batch" else sa.String()


def _fill() -> str:
    """Of every event booked so far the best record, in the hour of the first."""
    names = ", ".join((*DIMENSIONS, *COUNTS))
    best = (
        f"SELECT rid, {names} FROM usage_event e WHERE NOT EXISTS "
        "(SELECT 1 FROM usage_correction c WHERE c.rid = e.rid) "
        f"UNION ALL SELECT rid, {names} FROM usage_correction c WHERE n = "
        "(SELECT max(n) FROM usage_correction d WHERE d.rid = c.rid)"
    )
    hour = f"first.ended_us - first.ended_us % {HOUR_US}"
    dimensions = ", ".join(f"best.{name}" for name in DIMENSIONS)
    sums = ", ".join(f"sum(best.{name})" for name in COUNTS)
    return (
        f"INSERT INTO usage_hour SELECT {hour}, {dimensions}, count(*), {sums} "
        f"FROM usage_event first JOIN ({best}) best ON best.rid = first.rid "
        f"GROUP BY {hour}, {dimensions}"
    )
