"""Answers about VAT ids, and the one that an invoice froze."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from migrations.guards import drop_functions_of_changes, forbid_changes

revision = "0079"
down_revision = "0076"
branch_labels = None
depends_on = None

TABLE = "vat_check"


def upgrade() -> None:
    op.create_table(
        TABLE,
        sa.Column("vat_id", sa.String(), nullable=False),
        sa.Column("checked_us", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("requester", sa.String(), nullable=False),
        sa.Column("is_valid", sa.Boolean(), nullable=False),
        sa.Column("consultation", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("vat_id", "checked_us"),
    )
    forbid_changes(TABLE)
    op.add_column("invoice_parties", sa.Column(TABLE, sa.JSON(), nullable=True))


def downgrade() -> None:
    op.drop_column("invoice_parties", TABLE)
    op.drop_table(TABLE)
    drop_functions_of_changes(TABLE)
