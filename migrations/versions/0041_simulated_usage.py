"""Which usage simulated pools served, in records and on lines of invoices."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None

TABLES = ("usage_event", "usage_correction", "invoice_line")


def upgrade() -> None:
    for table in TABLES:
        column = sa.Column("is_simulated", sa.Boolean(), nullable=False, server_default=sa.false())
        op.add_column(table, column)


def downgrade() -> None:
    for table in TABLES:
        op.drop_column(table, "is_simulated")
