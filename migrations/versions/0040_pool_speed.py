"""How many times faster than its hardware a simulated pool is."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("pool", sa.Column("speed", sa.Float()))


def downgrade() -> None:
    with op.batch_alter_table("pool") as pool:
        pool.drop_column("speed")
