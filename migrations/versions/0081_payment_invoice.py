"""Payments by invoice: the credit that an invoice below zero has put on account."""

from __future__ import annotations

from alembic import op

revision = "0081"
down_revision = "0083"
branch_labels = None
depends_on = None

INDEX = "payment_invoice"


def upgrade() -> None:
    op.create_index(INDEX, "payment", ["invoice_id"])


def downgrade() -> None:
    op.drop_index(INDEX, "payment")
