"""Who bills whom with an invoice, as it was when the invoice got its number."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from migrations.guards import drop_functions_of_final, forbid_changes_once_final

revision = "0055"
down_revision = "0054"
branch_labels = None
depends_on = None

TABLE = "invoice_parties"


def upgrade() -> None:
    op.create_table(
        TABLE,
        sa.Column("invoice_id", sa.String(), nullable=False),
        *(sa.Column(name, sa.JSON(), nullable=False) for name in ("seller", "buyer", "rule")),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("issued_us", "due_us")),
        sa.ForeignKeyConstraint(["invoice_id"], ["invoice.invoice_id"]),
        sa.PrimaryKeyConstraint("invoice_id"),
    )
    forbid_changes_once_final(TABLE)


def downgrade() -> None:
    op.drop_table(TABLE)
    drop_functions_of_final(TABLE)
