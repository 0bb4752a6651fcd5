"""Who bills whom: sellers, billing profiles and tax rules."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0054"
down_revision = "0053"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "seller",
        sa.Column("seller_id", sa.String(), nullable=False),
        sa.Column("series", sa.String(), nullable=False),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.Column("changed_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("seller_id"),
        sa.UniqueConstraint("series"),
    )
    op.create_table(
        "billing_profile",
        sa.Column("org", sa.String(), nullable=False),
        sa.Column("seller", sa.String(), nullable=False),
        sa.Column("details", sa.JSON(), nullable=False),
        sa.Column("changed_us", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["seller"], ["seller.seller_id"]),
        sa.PrimaryKeyConstraint("org"),
    )
    op.create_table(
        "tax_rule",
        sa.Column("rule_id", sa.String(), nullable=False),
        sa.Column("category", sa.String(), nullable=False),
        sa.Column("from_us", sa.BigInteger(), nullable=False),
        sa.Column("to_us", sa.BigInteger(), nullable=True),
        *(
            sa.Column(name, sa.String(), nullable=False)
            for name in ("seller", "buyer_country", "buyer_region", "buyer_kind")
        ),
        sa.Column("rate_ppm", sa.Integer(), nullable=False),
        sa.Column("reason_code", sa.String(), nullable=False),
        sa.Column("note", sa.String(), nullable=False),
        sa.Column("changed_us", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("category IN ('S','Z','E','AE','G','O')", name="tax_category_known"),
        sa.CheckConstraint("rate_ppm >= 0 AND rate_ppm <= 1000000", name="tax_rate_bounded"),
        sa.PrimaryKeyConstraint("rule_id"),
    )


def downgrade() -> None:
    for table in ("tax_rule", "billing_profile", "seller"):
        op.drop_table(table)
