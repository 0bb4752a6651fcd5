"""Steps of dunning that were taken, which never change."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from migrations.guards import drop_functions_of_changes, forbid_changes

revision = "0073"
down_revision = "0074"
branch_labels = None
depends_on = None

TABLE = "dunning_step"


def upgrade() -> None:
    op.create_table(
        TABLE,
        *(sa.Column(name, sa.String(), nullable=False) for name in ("invoice_id", "step")),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in ("left_cents", "taken_us")),
        sa.ForeignKeyConstraint(["invoice_id"], ["invoice.invoice_id"]),
        sa.PrimaryKeyConstraint("invoice_id", "step"),
    )
    forbid_changes(TABLE)


def downgrade() -> None:
    op.drop_table(TABLE)
    drop_functions_of_changes(TABLE)
