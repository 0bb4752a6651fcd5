"""Which known server an external pool was filled in for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0053"
down_revision = "0052"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("pool", sa.Column("preset", sa.String()))


def downgrade() -> None:
    with op.batch_alter_table("pool") as pool:
        pool.drop_column("preset")
