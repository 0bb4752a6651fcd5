"""A pool may be in a region, and a scope may be bound to regions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("pool", sa.Column("region", sa.String()))
    op.add_column("entitlement", sa.Column("regions", sa.JSON()))


def downgrade() -> None:
    with op.batch_alter_table("pool") as pool:
        pool.drop_column("region")
    with op.batch_alter_table("entitlement") as entitlement:
        entitlement.drop_column("regions")
