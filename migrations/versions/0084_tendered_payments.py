"""What a payment came as, where it came in another currency than USD."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0084"
down_revision = "0080"
branch_labels = None
depends_on = None

COLUMNS = (("tendered_currency", sa.String()), ("tendered_cents", sa.BigInteger()))


def upgrade() -> None:
    for name, kind in COLUMNS:
        op.add_column("payment", sa.Column(name, kind, nullable=True))


def downgrade() -> None:
    for name, _ in COLUMNS:
        op.drop_column("payment", name)
