"""What a server said when it refused an attempt: its status, and the first of its words."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("attempt", sa.Column("status", sa.Integer(), nullable=True))
    op.add_column("attempt", sa.Column("detail", sa.String(), nullable=True))


def downgrade() -> None:
    op.drop_column("attempt", "detail")
    op.drop_column("attempt", "status")
