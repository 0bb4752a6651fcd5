"""A pool says what it runs on, how it is bought, where, and what becomes of prompts there."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

CHECK = "offer_known"


def added() -> tuple[sa.Column[Any], ...]:
    return (
        sa.Column("hardware", sa.String()),
        sa.Column("gpus_per_replica", sa.Integer()),
        sa.Column("offer", sa.String(), nullable=False, server_default="serverless"),
        sa.Column("zone", sa.String()),
        sa.Column("provider", sa.String()),
        sa.Column("retention_days", sa.Integer()),
        sa.Column("trains", sa.Boolean()),
    )


def upgrade() -> None:
    with op.batch_alter_table("pool") as pool:
        for column in added():
            pool.add_column(column)
        pool.create_check_constraint(CHECK, "offer IN ('serverless','dedicated','bare_metal')")


def downgrade() -> None:
    with op.batch_alter_table("pool") as pool:
        pool.drop_constraint(CHECK, type_="check")
        for column in added():
            pool.drop_column(column.name)
