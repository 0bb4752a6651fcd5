"""How many nodes a replica of a pool spans."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("pool") as pool:
        pool.add_column(sa.Column("num_nodes", sa.Integer(), nullable=False, server_default="1"))


def downgrade() -> None:
    with op.batch_alter_table("pool") as pool:
        pool.drop_column("num_nodes")
