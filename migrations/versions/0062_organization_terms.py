"""Terms of organizations, the kinds of transfers and lines that they add, and their lines."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0062"
down_revision = "0069"
branch_labels = None
depends_on = None

KINDS = ("tiers", "allowance", "discount", "minimum")


def upgrade() -> None:
    for kind in KINDS:
        for table in ("transfer_kind", "invoice_line_kind"):
            op.execute(f"INSERT INTO {table} (kind) VALUES ('{kind}')")
    for name in ("term_id", "description"):
        op.add_column(
            "invoice_line", sa.Column(name, sa.String(), nullable=False, server_default="")
        )
    op.create_table(
        "organization_terms",
        sa.Column("org", sa.String(), nullable=False),
        sa.Column("terms", sa.JSON(), nullable=False),
        sa.Column("has_minimum", sa.Boolean(), nullable=False),
        sa.Column("changed_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("org"),
    )


def downgrade() -> None:
    """An earlier revision knows no such transfer: with any that is booked, this fails."""
    named = ", ".join(f"'{kind}'" for kind in KINDS)
    booked = f"SELECT count(*) FROM transfer WHERE kind IN ({named})"
    if op.get_bind().scalar(sa.text(booked)):
        raise RuntimeError("booked terms cannot go back to a revision before 0062")
    op.drop_table("organization_terms")
    op.execute(
        "DELETE FROM invoice_line WHERE invoice_id IN (SELECT invoice_id FROM invoice WHERE "
        f"status = 'draft') AND kind IN ({named})"
    )
    for name in ("description", "term_id"):
        op.drop_column("invoice_line", name)
    for kind in KINDS:
        for table in ("transfer_kind", "invoice_line_kind"):
            op.execute(f"DELETE FROM {table} WHERE kind = '{kind}'")
