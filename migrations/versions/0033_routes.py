"""By which rule and version of the policy a call went, with its usage; calls of rules with a canary
are found by version and end."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None

TABLES = ("usage_event", "usage_correction")
COLUMNS = {
    "rule": sa.String(),
    "policy_revision": sa.Integer(),
    "is_canary": sa.Boolean(),
    "reason": sa.String(),
}
HAS_CANARY = sa.text("is_canary IS NOT NULL")


def upgrade() -> None:
    for table in TABLES:
        for name, kind in COLUMNS.items():
            op.add_column(table, sa.Column(name, kind, nullable=True))
    op.create_index(
        "usage_event_canary",
        "usage_event",
        ["policy_revision", "ended_us"],
        sqlite_where=HAS_CANARY,
        postgresql_where=HAS_CANARY,
    )


def downgrade() -> None:
    op.drop_index("usage_event_canary", "usage_event")
    for table in TABLES:
        for name in COLUMNS:
            op.drop_column(table, name)
