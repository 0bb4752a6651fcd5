"""The outbox: events that are written where they happen, who is told of them, and how it went."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0067"
down_revision = "0063"
branch_labels = None
depends_on = None

TABLE = "outbox_event"
EVENTS = ("UPDATE", "DELETE")


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
    for event in EVENTS:
        _guard(f"insert_only_{event.lower()}", event, "EACH ROW")
    if _is_postgresql():
        _guard("never_emptied", "TRUNCATE", "EACH STATEMENT")


def downgrade() -> None:
    for table in ("webhook_try", "webhook_delivery", "webhook_endpoint", TABLE):
        op.drop_table(table)
    if _is_postgresql():
        for end in (*(f"insert_only_{event.lower()}" for event in EVENTS), "never_emptied"):
            op.execute(f"DROP FUNCTION {TABLE}_{end}()")


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.String(), nullable=False)


def _whole(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False)


def _guard(end: str, event: str, each: str) -> None:
    name = f"{TABLE}_{end}"
    if not _is_postgresql():
        op.execute(
            f"CREATE TRIGGER {name} BEFORE {event} ON {TABLE} FOR EACH ROW "
            f"BEGIN SELECT RAISE(ABORT, '{TABLE} may not change'); END"
        )
        return
    op.execute(
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"RAISE EXCEPTION '{TABLE} may not change' USING ERRCODE = '23000'; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {name} BEFORE {event} ON {TABLE} FOR {each} EXECUTE FUNCTION {name}()"
    )


def _is_postgresql() -> bool:
    bind: sa.Connection = op.get_bind()
    return bind.dialect.name == "postgresql"
