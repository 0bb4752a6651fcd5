"""An organization says whether a call whose money is gone is told 429, as before, or 402."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

COLUMN, KNOWN = "insufficient_quota_status", "insufficient_quota_status_known"


def upgrade() -> None:
    with op.batch_alter_table("organization") as organization:
        organization.add_column(
            sa.Column(COLUMN, sa.Integer(), nullable=False, server_default="429")
        )
        organization.create_check_constraint(KNOWN, f"{COLUMN} IN (402,429)")


def downgrade() -> None:
    with op.batch_alter_table("organization") as organization:
        organization.drop_constraint(KNOWN, type_="check")
        organization.drop_column(COLUMN)
