"""Tax rules say of which level their jurisdiction is, and whether they need a certificate."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0083"
down_revision = "0082"
branch_labels = None
depends_on = None

TABLE = "tax_rule"


def upgrade() -> None:
    op.add_column(TABLE, sa.Column("level", sa.String(), nullable=False, server_default=""))
    needs = sa.Column("needs_exemption", sa.Boolean(), nullable=False, server_default=sa.false())
    op.add_column(TABLE, needs)


def downgrade() -> None:
    """An earlier revision would exempt everybody by a rule that asks for a certificate."""
    op.execute(
        "DELETE FROM tax_rule WHERE needs_exemption OR (jurisdiction <> '' AND rate_ppm = 0)"
    )
    for name in ("needs_exemption", "level"):
        op.drop_column(TABLE, name)
