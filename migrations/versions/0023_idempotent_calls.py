"""Under which Idempotency-Key a call ran: known although Redis has forgotten it. Never changes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

TABLE = "idempotent_call"
UNDER_A_KEY = sa.text("idempotency IS NOT NULL")


def upgrade() -> None:
    op.create_table(
        TABLE,
        sa.Column("rid", sa.String(), nullable=False),
        sa.Column("api_key", sa.String(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("ended_us", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["rid"], ["usage_event.rid"]),
        sa.PrimaryKeyConstraint("rid"),
    )
    op.create_index("idempotent_call_key", TABLE, ["api_key", "digest", "ended_us"])
    op.add_column("open_hold", sa.Column("idempotency", sa.String(), nullable=True))
    op.create_index(
        "open_hold_idempotency",
        "open_hold",
        ["key", "idempotency"],
        sqlite_where=UNDER_A_KEY,
        postgresql_where=UNDER_A_KEY,
    )
    guard = _postgresql_guard if _is_postgresql() else _sqlite_guard
    for event in _events():
        guard(event)


def downgrade() -> None:
    for event in _events():
        op.execute(f"DROP TRIGGER {_name(event)}" + (f" ON {TABLE}" if _is_postgresql() else ""))
        if _is_postgresql():
            op.execute(f"DROP FUNCTION {_name(event)}()")
    op.drop_index("open_hold_idempotency", "open_hold")
    op.drop_column("open_hold", "idempotency")
    op.drop_table(TABLE)


def _is_postgresql() -> bool:
    bind: sa.Connection = op.get_bind()
    return bind.dialect.name == "postgresql"


def _events() -> tuple[str, ...]:
    return ("UPDATE", "DELETE", "TRUNCATE") if _is_postgresql() else ("UPDATE", "DELETE")


def _name(event: str) -> str:
    return f"{TABLE}_insert_only_{event.lower()}"


def _sqlite_guard(event: str) -> None:
    op.execute(
        f"CREATE TRIGGER {_name(event)} BEFORE {event} ON {TABLE} FOR EACH ROW "
        f"BEGIN SELECT RAISE(ABORT, '{TABLE} may not change'); END"
    )


def _postgresql_guard(event: str) -> None:
    name, each = _name(event), "STATEMENT" if event == "TRUNCATE" else "ROW"
    op.execute(
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE "
        f"EXCEPTION '{TABLE} may not change' USING ERRCODE = '23000'; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {name} BEFORE {event} ON {TABLE} FOR EACH {each} EXECUTE FUNCTION {name}()"
    )
