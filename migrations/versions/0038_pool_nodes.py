"""Which nodes a pool runs on: their market, their accelerator, or their one type."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None

COLUMNS = ("market", "accelerator", "nodes")


def upgrade() -> None:
    with op.batch_alter_table("pool") as pool:
        for column in COLUMNS:
            pool.add_column(sa.Column(column, sa.String()))


def downgrade() -> None:
    with op.batch_alter_table("pool") as pool:
        for column in reversed(COLUMNS):
            pool.drop_column(column)
