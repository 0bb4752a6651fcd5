"""An organization may have a tier, in the operator's words."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("organization", sa.Column("tier", sa.String()))


def downgrade() -> None:
    with op.batch_alter_table("organization") as organization:
        organization.drop_column("tier")
