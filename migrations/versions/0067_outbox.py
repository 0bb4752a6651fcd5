"""The outbox: events that are written where they happen, who is told of them, and how it went."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from migrations.guards import drop_functions_of_changes, forbid_changes

revision = "0067"
down_revision = "0063"
branch_labels = None
depends_on = None

TABLE = "outbox_event"


def upgrade() -> None:
    op.create_table(
        TABLE,
        *(_text(name) for name in ("event_id", "type", "org", "body")),
        _whole("created_us"),
        sa.PrimaryKeyConstraint("event_id"),
    )
    op.create_table(
        "webhook_endpoint",
        *(_text(name) for name in ("endpoint_id", "url")),
        sa.Column("events", sa.JSON(), nullable=False),
        *(_text(name) for name in ("org", "note")),
        sa.Column("is_enabled", sa.Boolean(), nullable=False, server_default=sa.true()),
        *(_text(name) for name in ("secret", "previous_secret")),
        *(_whole(name) for name in ("previous_until_us", "created_us", "changed_us")),
        sa.PrimaryKeyConstraint("endpoint_id"),
    )
    op.create_table(
        "webhook_delivery",
        *(_text(name) for name in ("endpoint_id", "event_id", "state")),
        sa.Column("tries", sa.Integer(), nullable=False),
        *(_whole(name) for name in ("due_us", "created_us", "changed_us")),
        sa.CheckConstraint("state IN ('pending','delivered','failed')", name="delivery_known"),
        sa.ForeignKeyConstraint(["endpoint_id"], ["webhook_endpoint.endpoint_id"]),
        sa.ForeignKeyConstraint(["event_id"], ["outbox_event.event_id"]),
        sa.PrimaryKeyConstraint("endpoint_id", "event_id"),
    )
    op.create_index("webhook_delivery_due", "webhook_delivery", ["state", "due_us"])
    op.create_table(
        "webhook_try",
        sa.Column("try_id", sa.Integer(), nullable=False),
        *(_text(name) for name in ("endpoint_id", "event_id")),
        _whole("at_us"),
        sa.Column("status", sa.Integer(), nullable=True),
        _text("problem"),
        sa.PrimaryKeyConstraint("try_id"),
    )
    op.create_index("webhook_try_of", "webhook_try", ["endpoint_id", "event_id"])
    forbid_changes(TABLE)


def downgrade() -> None:
    for table in ("webhook_try", "webhook_delivery", "webhook_endpoint", TABLE):
        op.drop_table(table)
    drop_functions_of_changes(TABLE)


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.String(), nullable=False)


def _whole(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False)
