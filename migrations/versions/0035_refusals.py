"""Refused calls, for a time."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None

HAS_CANARY = sa.text("is_canary IS NOT NULL")


def upgrade() -> None:
    op.create_table(
        "refusal",
        sa.Column("rid", sa.String(), primary_key=True),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("until_us", sa.BigInteger(), nullable=False),
        sa.Column("calls", sa.Integer(), nullable=False),
        sa.Column("org", sa.String(), nullable=False),
        sa.Column("project", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        sa.Column("tier", sa.String(), nullable=False),
        sa.Column("rule", sa.String(), nullable=False),
        sa.Column("policy_revision", sa.Integer(), nullable=False),
        sa.Column("is_canary", sa.Boolean(), nullable=True),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("error_code", sa.String(), nullable=False),
        sa.Column("message", sa.String(), nullable=False),
    )
    op.create_index("refusal_at", "refusal", ["at_us", "rid"])
    op.create_index("refusal_org", "refusal", ["org", "at_us", "rid"])
    op.create_index(
        "refusal_canary",
        "refusal",
        ["policy_revision", "at_us"],
        sqlite_where=HAS_CANARY,
        postgresql_where=HAS_CANARY,
    )


def downgrade() -> None:
    op.drop_table("refusal")
