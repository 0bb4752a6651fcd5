"""Taxes of invoices: frozen with the number, and booked as transfers of a kind of their own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from migrations.guards import drop_functions_of_final, forbid_changes_once_final

revision = "0060"
down_revision = "0057"
branch_labels = None
depends_on = None

TABLE = "invoice_tax"


def upgrade() -> None:
    op.execute("INSERT INTO transfer_kind (kind) VALUES ('tax')")
    op.add_column(
        "invoice", sa.Column("tax_cents", sa.BigInteger(), nullable=False, server_default="0")
    )
    op.add_column("invoice_line", sa.Column("tax_place", sa.Integer(), nullable=True))
    op.create_table(
        TABLE,
        sa.Column("invoice_id", sa.String(), nullable=False),
        sa.Column("place", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("category", sa.String(), nullable=False),
        sa.Column("rate_ppm", sa.Integer(), nullable=False),
        *(
            sa.Column(name, sa.String(), nullable=False)
            for name in ("reason_code", "note", "account")
        ),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("base_cents", "tax_cents")),
        sa.ForeignKeyConstraint(["invoice_id"], ["invoice.invoice_id"]),
        sa.PrimaryKeyConstraint("invoice_id", "place"),
    )
    forbid_changes_once_final(TABLE)


def downgrade() -> None:
    """An earlier revision knows no tax: with any that was booked, this fails."""
    if op.get_bind().scalar(sa.text("SELECT count(*) FROM transfer WHERE kind = 'tax'")):
        raise RuntimeError("taxes that were booked cannot go back to a revision before 0060")
    op.drop_table(TABLE)
    drop_functions_of_final(TABLE)
    op.drop_column("invoice_line", "tax_place")
    op.drop_column("invoice", "tax_cents")
    op.execute("DELETE FROM transfer_kind WHERE kind = 'tax'")
