"""Invoices have a kind: those of a month, and one-off ones of lines that a person wrote."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0072"
down_revision = "0070"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("invoice", sa.Column("kind", sa.String(), nullable=False, server_default="month"))
    op.execute("INSERT INTO invoice_line_kind (kind) VALUES ('item')")


def downgrade() -> None:
    """An earlier revision knows one-off invoices as none: with any of them, this fails."""
    if op.get_bind().scalar(sa.text("SELECT count(*) FROM invoice WHERE kind = 'one_off'")):
        raise RuntimeError("one-off invoices cannot go back to a revision before 0072")
    op.execute("DELETE FROM invoice_line_kind WHERE kind = 'item'")
    op.drop_column("invoice", "kind")
