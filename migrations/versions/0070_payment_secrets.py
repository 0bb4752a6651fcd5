"""The secret by which each seller's payment service signs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0070"
down_revision = "0067"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "payment_secret",
        *(sa.Column(name, sa.String(), nullable=False) for name in ("seller", "secret")),
        sa.Column("changed_us", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["seller"], ["seller.seller_id"]),
        sa.PrimaryKeyConstraint("seller"),
    )


def downgrade() -> None:
    op.drop_table("payment_secret")
