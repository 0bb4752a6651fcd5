"""Hardware of the operator's own, beside the parts that ship."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "hardware",
        sa.Column("name", sa.String(), primary_key=True),
        sa.Column("title", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("reference", sa.String(), nullable=False),
        sa.Column("memory_gb", sa.Float()),
        sa.Column("bandwidth_gb_s", sa.Float()),
        sa.Column("gpus_server", sa.Integer()),
        sa.Column("tflops", sa.JSON(), nullable=False),
        sa.Column("prices", sa.JSON(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.CheckConstraint("kind IN ('gpu','tpu','accelerator','cpu')", name="hardware_kind_known"),
    )


def downgrade() -> None:
    op.drop_table("hardware")
