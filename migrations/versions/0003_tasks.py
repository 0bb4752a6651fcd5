"""Models have a task, an origin and a checksum; pools an engine and GPUs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("model") as model:
        model.add_column(sa.Column("task", sa.String(), nullable=False, server_default="generate"))
        model.add_column(
            sa.Column("created_us", sa.BigInteger(), nullable=False, server_default="0")
        )
        model.add_column(sa.Column("origin", sa.String(), nullable=True))
        model.add_column(sa.Column("checksum", sa.String(), nullable=True))
        model.create_check_constraint("task_known", "task IN ('generate','embed')")
    with op.batch_alter_table("pool") as pool:
        pool.add_column(sa.Column("engine", sa.String(), nullable=True))
        pool.add_column(sa.Column("num_gpus", sa.Float(), nullable=False, server_default="0"))


def downgrade() -> None:
    with op.batch_alter_table("pool") as pool:
        pool.drop_column("num_gpus")
        pool.drop_column("engine")
    with op.batch_alter_table("model") as model:
        model.drop_constraint("task_known", type_="check")
        for column in ("checksum", "origin", "created_us", "task"):
            model.drop_column(column)
