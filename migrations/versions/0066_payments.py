"""Payments, and which part of one went where. Both never change."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from migrations.guards import drop_functions_of_changes, forbid_changes

revision = "0066"
down_revision = "0060"
branch_labels = None
depends_on = None

KINDS = ("payment", "payment_applied", "payment_reversed", "refund")
TABLES = ("payment", "payment_part")


def upgrade() -> None:
    named = ", ".join(f"('{kind}')" for kind in KINDS)
    op.execute(f"INSERT INTO transfer_kind (kind) VALUES {named}")
    op.create_table(
        "payment",
        *(_text(name) for name in ("payment_id", "org", "external_id", "source")),
        sa.Column("invoice_id", sa.String(), nullable=True),
        _whole("amount_cents"),
        _text("currency"),
        _whole("received_us"),
        *(_text(name) for name in ("note", "created_by")),
        _whole("created_us"),
        sa.CheckConstraint("amount_cents > 0", name="payment_positive"),
        sa.ForeignKeyConstraint(["invoice_id"], ["invoice.invoice_id"]),
        sa.PrimaryKeyConstraint("payment_id"),
    )
    op.create_index("payment_org", "payment", ["org"])
    op.create_table(
        "payment_part",
        _text("payment_id"),
        sa.Column("n", sa.Integer(), autoincrement=False, nullable=False),
        _text("kind"),
        sa.Column("invoice_id", sa.String(), nullable=True),
        _whole("amount_cents"),
        *(_text(name) for name in ("external_id", "reason", "created_by")),
        _whole("created_us"),
        sa.CheckConstraint("kind IN ('invoice','refund','reversal')", name="part_known"),
        sa.CheckConstraint("(kind = 'invoice') = (invoice_id IS NOT NULL)", name="part_of_invoice"),
        sa.CheckConstraint("amount_cents <> 0", name="part_moves"),
        sa.ForeignKeyConstraint(["invoice_id"], ["invoice.invoice_id"]),
        sa.ForeignKeyConstraint(["payment_id"], ["payment.payment_id"]),
        sa.PrimaryKeyConstraint("payment_id", "n"),
    )
    op.create_index("payment_part_invoice", "payment_part", ["invoice_id"])
    forbid_changes(*TABLES)


def downgrade() -> None:
    """Payments have transfers, which stay: with any of them this fails."""
    if op.get_bind().scalar(sa.text("SELECT count(*) FROM payment")):
        raise RuntimeError("payments cannot go back to a revision before 0066")
    for table in reversed(TABLES):
        op.drop_table(table)
    drop_functions_of_changes(*TABLES)
    named = ", ".join(f"'{kind}'" for kind in KINDS)
    op.execute(f"DELETE FROM transfer_kind WHERE kind IN ({named})")


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.String(), nullable=False)


def _whole(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False)
