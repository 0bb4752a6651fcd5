"""An external pool names the fields of a body that go on to its server as they are."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("pool") as pool:
        pool.add_column(sa.Column("extra_fields", sa.JSON(), nullable=False, server_default="[]"))


def downgrade() -> None:
    with op.batch_alter_table("pool") as pool:
        pool.drop_column("extra_fields")
