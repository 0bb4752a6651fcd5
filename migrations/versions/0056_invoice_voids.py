"""Invoices may be void and made again: a revision, what it replaces, and voids that never change.

A void is a row of its own, since a final invoice may not change. It keeps its number.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from migrations.guards import drop_functions_of_changes, forbid_changes

revision = "0056"
down_revision = "0055"
branch_labels = None
depends_on = None

TABLE = "invoice_void"


def upgrade() -> None:
    op.execute("INSERT INTO transfer_kind (kind) VALUES ('invoice_void')")
    op.add_column(
        "invoice", sa.Column("revision", sa.Integer(), nullable=False, server_default="1")
    )
    op.add_column("invoice", sa.Column("replaces_id", sa.String(), nullable=True))
    op.drop_index("invoice_run", "invoice")
    op.create_index("invoice_run", "invoice", ["org", "period", "revision"], unique=True)
    op.create_table(
        TABLE,
        sa.Column("invoice_id", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("voided_by", sa.String(), nullable=False),
        sa.Column("voided_us", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["invoice_id"], ["invoice.invoice_id"]),
        sa.PrimaryKeyConstraint("invoice_id"),
    )
    forbid_changes(TABLE)


def downgrade() -> None:
    """An earlier revision knows one invoice of a month: with any that is void, this fails."""
    if op.get_bind().scalar(sa.text(f"SELECT count(*) FROM {TABLE}")):
        raise RuntimeError("void invoices cannot go back to a revision before 0056")
    op.drop_table(TABLE)
    drop_functions_of_changes(TABLE)
    op.drop_index("invoice_run", "invoice")
    op.create_index("invoice_run", "invoice", ["org", "period"], unique=True)
    op.drop_column("invoice", "replaces_id")
    op.drop_column("invoice", "revision")
    op.execute("DELETE FROM transfer_kind WHERE kind = 'invoice_void'")
