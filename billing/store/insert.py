"""INSERT with a conflict clause, in the dialect at hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Insert, Table
from sqlalchemy.dialects import postgresql, sqlite

Row = Mapping[str, Any]


def insert_new(conn: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert what is not there yet, by any unique key of the table."""
    if rows:
        conn.execute(_insert(conn, table).on_conflict_do_nothing(), rows)


def insert_or_replace(
    conn: Connection, table: Table, rows: Sequence[Row], columns: Sequence[str]
) -> None:
    """Insert, or overwrite `columns` of the row with the same primary key."""
    if not rows:
        return
    statement = _insert(conn, table)
    conn.execute(
        statement.on_conflict_do_update(
            index_elements=[column.name for column in table.primary_key],
            set_={name: statement.excluded[name] for name in columns},
        ),
        rows,
    )


def _insert(conn: Connection, table: Table) -> Any:
    make: Any = postgresql.insert if conn.dialect.name == "postgresql" else sqlite.insert
    statement: Insert = make(table)
    return statement
