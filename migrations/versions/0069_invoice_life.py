"""Invoices are held back, approved and written off. A write-off never changes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from migrations.guards import drop_functions_of_changes, forbid_changes

revision = "0069"
down_revision = "0066"
branch_labels = None
depends_on = None

TABLE = "invoice_write_off"


def upgrade() -> None:
    op.execute("INSERT INTO transfer_kind (kind) VALUES ('write_off')")
    op.create_table(
        TABLE,
        sa.Column("invoice_id", sa.String(), nullable=False),
        sa.Column("amount_cents", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("written_by", sa.String(), nullable=False),
        sa.Column("written_us", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["invoice_id"], ["invoice.invoice_id"]),
        sa.PrimaryKeyConstraint("invoice_id"),
    )
    op.create_table(
        "invoice_review",
        sa.Column("invoice_id", sa.String(), nullable=False),
        sa.Column("held_because", sa.String(), nullable=False),
        sa.Column("approved_cents", sa.BigInteger(), nullable=True),
        sa.Column("changed_by", sa.String(), nullable=False),
        sa.Column("changed_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("invoice_id"),
    )
    forbid_changes(TABLE)


def downgrade() -> None:
    """An earlier revision knows no write-off: with any of them, this fails."""
    if op.get_bind().scalar(sa.text(f"SELECT count(*) FROM {TABLE}")):
        raise RuntimeError("write-offs cannot go back to a revision before 0069")
    op.drop_table("invoice_review")
    op.drop_table(TABLE)
    drop_functions_of_changes(TABLE)
    op.execute("DELETE FROM transfer_kind WHERE kind = 'write_off'")
