"""How much memory a replica of a pool takes of its nodes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("pool") as pool:
        pool.add_column(sa.Column("memory_mb", sa.Integer()))


def downgrade() -> None:
    with op.batch_alter_table("pool") as pool:
        pool.drop_column("memory_mb")
