"""What speaks to the server of an external pool, where that is not ourselves."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0048"
down_revision = "0047"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("pool", sa.Column("adapter", sa.String()))


def downgrade() -> None:
    with op.batch_alter_table("pool") as pool:
        pool.drop_column("adapter")
