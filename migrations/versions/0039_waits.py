"""How often a call was decided anew while it waited for a place, and what came of it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None

TABLES = ("usage_event", "usage_correction")
COLUMNS = {"wait_pool": sa.String(), "redecisions": sa.Integer(), "wait_end": sa.String()}


def upgrade() -> None:
    for table in TABLES:
        for name, kind in COLUMNS.items():
            op.add_column(table, sa.Column(name, kind, nullable=True))


def downgrade() -> None:
    for table in TABLES:
        for name in COLUMNS:
            op.drop_column(table, name)
