"""Old events of the outbox may be removed once nobody is to hear of them."""

from __future__ import annotations

from alembic import op

from migrations.guards import allow_deletes, forbid_deletes

revision = "0082"
down_revision = "0077"
branch_labels = None
depends_on = None

TABLE = "outbox_event"
INDEXES = (
    ("outbox_event_created", TABLE, "created_us"),
    ("webhook_delivery_event", "webhook_delivery", "event_id"),
)


def upgrade() -> None:
    for name, table, column in INDEXES:
        op.create_index(name, table, [column])
    allow_deletes(TABLE)


def downgrade() -> None:
    forbid_deletes(TABLE)
    for name, table, _ in INDEXES:
        op.drop_index(name, table)
