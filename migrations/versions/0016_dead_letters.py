"""Dead letters: of which kind a record was, and what became of it. Neither ever changes.

The kind of those that are there already was not kept; their payload tells it where it can be read.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

TABLES = ("dead_letter", "dead_letter_resolution")


def upgrade() -> None:
    op.add_column("dead_letter", sa.Column("kind", sa.String(), nullable=False, server_default=""))
    op.create_index("dead_letter_rid", "dead_letter", ["rid"])
    op.create_table(
        "dead_letter_resolution",
        sa.Column("letter_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("resolved_by", sa.String(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("resolved_us", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("outcome IN ('booked','judged')", name="outcome_known"),
        sa.CheckConstraint("outcome = 'booked' OR note <> ''", name="judged_with_a_reason"),
        sa.ForeignKeyConstraint(["letter_id"], ["dead_letter.id"]),
        sa.PrimaryKeyConstraint("letter_id"),
    )
    guard = _postgresql_guard if _is_postgresql() else _sqlite_guard
    for table in TABLES:
        for event in _events():
            guard(table, event)


def downgrade() -> None:
    for table in TABLES:
        for event in _events():
            name = _name(table, event)
            op.execute(f"DROP TRIGGER {name}" + (f" ON {table}" if _is_postgresql() else ""))
            if _is_postgresql():
                op.execute(f"DROP FUNCTION {name}()")
    op.drop_table("dead_letter_resolution")
    op.drop_index("dead_letter_rid", "dead_letter")
    op.drop_column("dead_letter", "kind")


def _is_postgresql() -> bool:
    bind: sa.Connection = op.get_bind()
    return bind.dialect.name == "postgresql"


def _events() -> tuple[str, ...]:
    return ("UPDATE", "DELETE", "TRUNCATE") if _is_postgresql() else ("UPDATE", "DELETE")


def _name(table: str, event: str) -> str:
    return f"{table}_insert_only_{event.lower()}"


def _sqlite_guard(table: str, event: str) -> None:
    op.execute(
        f"CREATE TRIGGER {_name(table, event)} BEFORE {event} ON {table} FOR EACH ROW "
        f"BEGIN SELECT RAISE(ABORT, '{table} may not change'); END"
    )


def _postgresql_guard(table: str, event: str) -> None:
    name, each = _name(table, event), "STATEMENT" if event == "TRUNCATE" else "ROW"
    op.execute(
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE "
        f"EXCEPTION '{table} may not change' USING ERRCODE = '23000'; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH {each} EXECUTE FUNCTION {name}()"
    )
