"""How long the idle replicas of a pool sleep before they go."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("pool", sa.Column("sleep_idle_s", sa.Float()))


def downgrade() -> None:
    with op.batch_alter_table("pool") as pool:
        pool.drop_column("sleep_idle_s")
