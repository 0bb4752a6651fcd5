"""Bills of providers: what they came to beside booked attempts, and the kind of their transfers.

Attempts that bought something are found by their day along an index of those alone.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from migrations.guards import drop_functions_of_changes, forbid_changes

revision = "0068"
down_revision = "0072"
branch_labels = None
depends_on = None

BILL, LINE = "provider_bill", "provider_bill_line"
BOUGHT = sa.text("bought_nanousd <> 0")


def upgrade() -> None:
    op.execute("INSERT INTO transfer_kind (kind) VALUES ('variance')")
    op.create_index(
        "attempt_bought",
        "attempt",
        ["started_us"],
        sqlite_where=BOUGHT,
        postgresql_where=BOUGHT,
    )
    op.create_table(
        BILL,
        *(_text(name) for name in ("provider", "sha256", "first_day", "last_day")),
        *(_big(f"{name}_nanousd") for name in ("billed", "booked", "variance")),
        _big("posted_us"),
        _text("posted_by"),
        sa.PrimaryKeyConstraint("provider", "sha256"),
    )
    op.create_table(
        LINE,
        *(_text(name) for name in ("provider", "sha256", "day", "model")),
        *(_big(f"{name}_nanousd") for name in ("billed", "booked", "posted", "variance")),
        sa.Column("classes", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["provider", "sha256"], [f"{BILL}.provider", f"{BILL}.sha256"]),
        sa.PrimaryKeyConstraint("provider", "sha256", "day", "model"),
    )
    forbid_changes(BILL, LINE)


def downgrade() -> None:
    """An earlier revision knows no variance: with any bill, this fails."""
    if op.get_bind().scalar(sa.text(f"SELECT count(*) FROM {BILL}")):
        raise RuntimeError("bills of providers cannot go back to a revision before 0068")
    for table in (LINE, BILL):
        op.drop_table(table)
    drop_functions_of_changes(BILL, LINE)
    op.drop_index("attempt_bought", "attempt")
    op.execute("DELETE FROM transfer_kind WHERE kind = 'variance'")


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.String(), nullable=False)


def _big(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False)
