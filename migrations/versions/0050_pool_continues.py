"""A pool says how an answer that was cut goes on at its external server."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0050"
down_revision = "0049"
branch_labels = None
depends_on = None

CHECK = "continues_known"


def upgrade() -> None:
    with op.batch_alter_table("pool") as pool:
        pool.add_column(sa.Column("continues", sa.String(), nullable=False, server_default="anew"))
        pool.create_check_constraint(CHECK, "continues IN ('prefix','anew','off')")


def downgrade() -> None:
    with op.batch_alter_table("pool") as pool:
        pool.drop_constraint(CHECK, type_="check")
        pool.drop_column("continues")
