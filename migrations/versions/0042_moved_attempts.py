"""Attempts that were moved are found without looking through all of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None

MOVED = sa.text("outcome = 'moved'")


def upgrade() -> None:
    op.create_index(
        "attempt_moved", "attempt", ["started_us"], sqlite_where=MOVED, postgresql_where=MOVED
    )


def downgrade() -> None:
    op.drop_index("attempt_moved", "attempt")
