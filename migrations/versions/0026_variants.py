"""Variants of a model: the weights of a pool, and what their quality was measured to be."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "variant",
        sa.Column("model", sa.String(), sa.ForeignKey("model.name"), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("quantization", sa.String(), nullable=False),
        sa.Column("path", sa.String()),
        sa.Column("shape", sa.JSON()),
        sa.Column("gpus_per_replica", sa.Integer(), nullable=False),
        sa.Column("context_tokens", sa.Integer()),
        sa.Column("quality", sa.JSON(), nullable=False),
        sa.Column("origin", sa.String()),
        sa.Column("checksum", sa.String()),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.CheckConstraint(
            "quantization IN ('bf16','fp16','fp8','int8','int4','fp32')",
            name="quantization_known",
        ),
        sa.PrimaryKeyConstraint("model", "name"),
    )


def downgrade() -> None:
    op.drop_table("variant")
