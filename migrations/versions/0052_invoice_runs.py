"""Runs over the invoices of a month, as jobs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0052"
down_revision = "0051"
branch_labels = None
depends_on = None

UNFINISHED = sa.text("state NOT IN ('done', 'failed')")


def upgrade() -> None:
    op.create_table(
        "invoice_job",
        *(
            sa.Column(name, sa.String(), nullable=False)
            for name in ("run_id", "period", "org", "state", "after_org", "problem")
        ),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in ("done", "total", "waiting")),
        *(
            sa.Column(name, sa.BigInteger(), nullable=False)
            for name in ("created_us", "changed_us")
        ),
        sa.CheckConstraint(
            "state IN ('queued','running','waiting','done','failed')", name="run_state_known"
        ),
        sa.PrimaryKeyConstraint("run_id"),
    )
    op.create_index(
        "invoice_job_unfinished",
        "invoice_job",
        ["period", "org"],
        unique=True,
        sqlite_where=UNFINISHED,
        postgresql_where=UNFINISHED,
    )


def downgrade() -> None:
    op.drop_table("invoice_job")
