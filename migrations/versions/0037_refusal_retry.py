"""When a call that was refused may come again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("refusal", sa.Column("retry_after_s", sa.Float()))


def downgrade() -> None:
    op.drop_column("refusal", "retry_after_s")
