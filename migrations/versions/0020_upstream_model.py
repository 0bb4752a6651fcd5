"""An external pool says what its server calls the model; until now that was the pool's variant."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("pool") as pool:
        pool.add_column(sa.Column("upstream_model", sa.String(), nullable=True))
    op.execute("UPDATE pool SET upstream_model = variant WHERE capacity_class = 'external'")


def downgrade() -> None:
    op.execute("UPDATE pool SET variant = upstream_model WHERE upstream_model IS NOT NULL")
    with op.batch_alter_table("pool") as pool:
        pool.drop_column("upstream_model")
