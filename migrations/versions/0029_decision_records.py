"""What decisions were made from: bodies of many records, and where the record of a call stands."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "decision_batch",
        sa.Column("id", SERIAL, primary_key=True, autoincrement=True),
        sa.Column("gateway", sa.String(), nullable=False),
        sa.Column("from_us", sa.BigInteger(), nullable=False),
        sa.Column("until_us", sa.BigInteger(), nullable=False),
        sa.Column("decisions", sa.Integer(), nullable=False),
        sa.Column("is_thinned", sa.Boolean(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
    )
    op.create_index("decision_batch_until", "decision_batch", ["until_us"])
    op.create_index("decision_batch_full", "decision_batch", ["is_thinned", "until_us"])
    op.create_index("decision_batch_gateway", "decision_batch", ["gateway", "id"])
    op.create_table(
        "decision_place",
        sa.Column("rid", sa.String(), nullable=False),
        sa.Column("batch", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("rid"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("decision_place")
    op.drop_table("decision_batch")
