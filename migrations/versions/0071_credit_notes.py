"""Credit notes, their lines and their taxes, which never change."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from migrations.guards import drop_functions_of_changes, forbid_changes

revision = "0071"
down_revision = "0064"
branch_labels = None
depends_on = None

TABLES = ("credit_note", "credit_note_line", "credit_note_tax")


def upgrade() -> None:
    op.execute("INSERT INTO transfer_kind (kind) VALUES ('credit_note')")
    op.create_table(
        "credit_note",
        *(_text(name) for name in ("note_id", "invoice_id", "org", "series")),
        sa.Column("number", sa.Integer(), nullable=False),
        _text("reason"),
        *(_whole(name) for name in ("net_cents", "tax_cents")),
        _text("created_by"),
        _whole("created_us"),
        sa.CheckConstraint("net_cents >= 0 AND tax_cents >= 0", name="credit_not_negative"),
        sa.CheckConstraint("net_cents + tax_cents > 0", name="credit_of_something"),
        sa.ForeignKeyConstraint(["invoice_id"], ["invoice.invoice_id"]),
        sa.PrimaryKeyConstraint("note_id"),
    )
    op.create_index("credit_note_number", "credit_note", ["series", "number"], unique=True)
    op.create_index("credit_note_invoice", "credit_note", ["invoice_id"])
    op.create_table(
        "credit_note_line",
        _text("note_id"),
        *(_place(name) for name in ("seq", "line_seq", "tax_place")),
        *(_whole(name) for name in ("quantity", "amount_cents")),
        sa.ForeignKeyConstraint(["note_id"], ["credit_note.note_id"]),
        sa.PrimaryKeyConstraint("note_id", "seq"),
    )
    op.create_table(
        "credit_note_tax",
        _text("note_id"),
        _place("tax_place"),
        *(_whole(name) for name in ("base_cents", "tax_cents")),
        sa.ForeignKeyConstraint(["note_id"], ["credit_note.note_id"]),
        sa.PrimaryKeyConstraint("note_id", "tax_place"),
    )
    forbid_changes(*TABLES)


def downgrade() -> None:
    """Credit notes have transfers, which stay: with any of them this fails."""
    if op.get_bind().scalar(sa.text("SELECT count(*) FROM credit_note")):
        raise RuntimeError("credit notes cannot go back to a revision before 0071")
    for table in reversed(TABLES):
        op.drop_table(table)
    drop_functions_of_changes(*TABLES)
    op.execute("DELETE FROM transfer_kind WHERE kind = 'credit_note'")


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.String(), nullable=False)


def _whole(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False)


def _place(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), autoincrement=False, nullable=False)
