"""What a server outside takes for tokens of a prompt that it has cached, and for how long it keeps
them; what such tokens of an attempt cost."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("pool") as pool:
        pool.add_column(sa.Column("cost_cached_input_nanousd_per_mtok", sa.BigInteger()))
        pool.add_column(sa.Column("cache_s", sa.Float(), nullable=False, server_default="300"))
    op.add_column("attempt", sa.Column("cached_input_nanousd_per_mtok", sa.BigInteger()))


def downgrade() -> None:
    op.drop_column("attempt", "cached_input_nanousd_per_mtok")
    with op.batch_alter_table("pool") as pool:
        pool.drop_column("cache_s")
        pool.drop_column("cost_cached_input_nanousd_per_mtok")
