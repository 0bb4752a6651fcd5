"""A scope may be bound to pools, and to those where no data is collected."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("entitlement", sa.Column("pools", sa.JSON()))
    op.add_column("entitlement", sa.Column("data_collection", sa.String()))


def downgrade() -> None:
    with op.batch_alter_table("entitlement") as entitlement:
        entitlement.drop_column("data_collection")
        entitlement.drop_column("pools")
