"""The two tables of documents in versions: each version, and when each came into force. Neither row
ever changes. Called by the migration of each kind of document; what stands here is frozen with
them, and a later change of the tables is a migration of its own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op


def create(kind: str) -> None:
    """`KIND_version` and `KIND_activation`, which only take new rows."""
    op.create_table(
        f"{kind}_version",
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("comment", sa.String(), nullable=False),
        sa.Column("author", sa.String(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("version"),
    )
    op.create_table(
        f"{kind}_activation",
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("is_rollback", sa.Boolean(), nullable=False),
        sa.Column("comment", sa.String(), nullable=False),
        sa.Column("author", sa.String(), nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["version"], [f"{kind}_version.version"]),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_index(f"{kind}_activation_version", f"{kind}_activation", ["version", "number"])
    guard = _postgresql_guard if _is_postgresql() else _sqlite_guard
    for table in _tables(kind):
        for event in _events():
            guard(table, event)


def drop(kind: str) -> None:
    for table in reversed(_tables(kind)):
        op.drop_table(table)
        if _is_postgresql():
            for event in _events():
                op.execute(f"DROP FUNCTION {_name(table, event)}()")


def _tables(kind: str) -> tuple[str, str]:
    return f"{kind}_version", f"{kind}_activation"


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
