"""Tax rules of jurisdictions, which add up, and what each of them has of a tax."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from migrations.guards import (
    drop_functions_of_changes,
    drop_functions_of_final,
    forbid_changes,
    forbid_changes_once_final,
)

revision = "0078"
down_revision = "0075"
branch_labels = None
depends_on = None

OF_INVOICE, OF_NOTE = "invoice_tax_share", "credit_note_tax_share"
PLACES = ("buyer_city", "jurisdiction")


def upgrade() -> None:
    for name in PLACES:
        op.add_column("tax_rule", sa.Column(name, sa.String(), nullable=False, server_default=""))
    codes = sa.Column("buyer_postal_codes", sa.JSON(), nullable=False, server_default="[]")
    op.add_column("tax_rule", codes)
    op.create_table(
        OF_INVOICE,
        sa.Column("invoice_id", sa.String(), nullable=False),
        *(
            sa.Column(n, sa.Integer(), autoincrement=False, nullable=False)
            for n in ("place", "share")
        ),
        sa.Column("jurisdiction", sa.String(), nullable=False),
        sa.Column("rate_ppm", sa.Integer(), nullable=False),
        sa.Column("account", sa.String(), nullable=False),
        sa.Column("tax_cents", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["invoice_id", "place"], ["invoice_tax.invoice_id", "invoice_tax.place"]
        ),
        sa.PrimaryKeyConstraint("invoice_id", "place", "share"),
    )
    forbid_changes_once_final(OF_INVOICE)
    op.create_table(
        OF_NOTE,
        sa.Column("note_id", sa.String(), nullable=False),
        *(
            sa.Column(name, sa.Integer(), autoincrement=False, nullable=False)
            for name in ("tax_place", "share")
        ),
        sa.Column("tax_cents", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["note_id"], ["credit_note.note_id"]),
        sa.PrimaryKeyConstraint("note_id", "tax_place", "share"),
    )
    forbid_changes(OF_NOTE)


def downgrade() -> None:
    """An earlier revision knows one tax of a buyer: with any that was shared, this fails."""
    if op.get_bind().scalar(sa.text(f"SELECT count(*) FROM {OF_INVOICE}")):
        raise RuntimeError("taxes of jurisdictions cannot go back to a revision before 0078")
    op.drop_table(OF_NOTE)
    drop_functions_of_changes(OF_NOTE)
    op.drop_table(OF_INVOICE)
    drop_functions_of_final(OF_INVOICE)
    op.execute("DELETE FROM tax_rule WHERE jurisdiction <> ''")
    for name in (*PLACES, "buyer_postal_codes"):
        op.drop_column("tax_rule", name)
