"""A pool says how long its external server may take."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0057"
down_revision = "0056"
branch_labels = None
depends_on = None

TIMEOUTS = ("connect_timeout_s", "first_token_timeout_s", "idle_timeout_s")


def upgrade() -> None:
    for name in TIMEOUTS:
        op.add_column("pool", sa.Column(name, sa.Float()))


def downgrade() -> None:
    with op.batch_alter_table("pool") as pool:
        for name in reversed(TIMEOUTS):
            pool.drop_column(name)
