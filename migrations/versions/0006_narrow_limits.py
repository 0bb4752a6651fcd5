"""Limits of input and output tokens, of one model and of end users; what an organization wants
while Redis is away."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

BY_DIRECTION = (
    "input_tokens_per_minute",
    "input_token_burst",
    "output_tokens_per_minute",
    "output_token_burst",
)
OTHERS = (
    "requests_per_minute",
    "request_burst",
    "tokens_per_minute",
    "token_burst",
    "concurrency",
)


def upgrade() -> None:
    for name in BY_DIRECTION:
        op.add_column("limits", sa.Column(name, sa.BigInteger(), nullable=True))
    op.create_table(
        "narrow_limits",
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=True) for name in OTHERS + BY_DIRECTION),
        sa.CheckConstraint("kind IN ('model','user')", name="narrow_kind_known"),
        sa.PrimaryKeyConstraint("owner", "kind", "name"),
    )
    op.create_table(
        "outage",
        sa.Column("org_id", sa.String(), nullable=False),
        sa.Column("mode", sa.String(), nullable=False),
        sa.Column("cap_nanousd", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("mode IN ('local','deny')", name="outage_mode_known"),
        sa.CheckConstraint("mode = 'deny' OR cap_nanousd IS NOT NULL", name="outage_local_capped"),
        sa.ForeignKeyConstraint(["org_id"], ["organization.id"]),
        sa.PrimaryKeyConstraint("org_id"),
    )


def downgrade() -> None:
    op.drop_table("outage")
    op.drop_table("narrow_limits")
    with op.batch_alter_table("limits") as limits:
        for name in BY_DIRECTION:
            limits.drop_column(name)
