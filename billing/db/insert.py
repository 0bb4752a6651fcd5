"""Inserts in the dialect at hand: many plain rows at once, or rows that may be there already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, Insert, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from billing.db.arrays import array_text

Row = Mapping[str, Any]


def insert_rows(conn: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows that are not there yet, all with the same columns. The hot writer inserts this
    way.

    SQLAlchemy would look at every value. The driver of SQLite binds whole rows, and PostgreSQL
    takes the rows as one COPY.
    """
    if not rows:
        return
    columns = tuple(rows[0])
    values = list(map(itemgetter(*columns), rows))
    if conn.dialect.name == "postgresql":
        types = [_type(table.c[name]).lower() for name in columns]
        _copy(conn, f"COPY {table.name} ({_quoted(columns)}) FROM STDIN", types, values)
    else:
        conn.exec_driver_sql(_insert_text(table, columns), values)


def add_to(
    conn: Connection,
    table: Table,
    columns: Sequence[str],
    rows: Sequence[tuple[Any, ...]],
    summed: Sequence[str],
) -> None:
    """Insert rows of these columns, or add `summed` to the row with the same primary key."""
    moved = tuple(f'"{name}" = {table.name}."{name}" + excluded."{name}"' for name in summed)
    _insert_or_move(conn, table, tuple(columns), rows, moved)


def replace_in(
    conn: Connection,
    table: Table,
    columns: Sequence[str],
    rows: Sequence[tuple[Any, ...]],
    replaced: Sequence[str],
) -> None:
    """Insert rows of these columns, or overwrite `replaced` where the primary key is there."""
    moved = tuple(f'"{name}" = excluded."{name}"' for name in replaced)
    _insert_or_move(conn, table, tuple(columns), rows, moved)


def insert_new(conn: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert the rows that are not there yet, by any unique key of the table."""
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


def add_one(conn: Connection, table: Table, key: Row, column: str, first: int) -> int:
    """Add one to a column of the row with this key, or insert it with `first`. The answer is what
    it has now; the row is locked until the transaction ends."""
    statement = _insert(conn, table).values({**key, column: first})
    moved = statement.on_conflict_do_update(
        index_elements=list(key), set_={column: table.c[column] + 1}
    )
    return int(conn.execute(moved.returning(table.c[column])).scalar_one())


def _insert_or_move(
    conn: Connection,
    table: Table,
    columns: tuple[str, ...],
    rows: Sequence[tuple[Any, ...]],
    moved: tuple[str, ...],
) -> None:
    if not rows:
        return
    if conn.dialect.name == "postgresql":
        from_arrays = "SELECT * FROM unnest({values})"
        text = _insert_or_move_text(table, columns, moved, from_arrays, "%s::{type}[]")
        conn.exec_driver_sql(text, tuple(map(array_text, zip(*rows, strict=True))))
    else:
        text = _insert_or_move_text(table, columns, moved, "VALUES ({values})", "?")
        conn.exec_driver_sql(text, list(rows))


def _insert(conn: Connection, table: Table) -> Any:
    make: Any = postgresql.insert if conn.dialect.name == "postgresql" else sqlite.insert
    statement: Insert = make(table)
    return statement


def _copy(
    conn: Connection, text: str, types: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> None:
    """Insert rows by COPY. The types are named, so the driver does not look them up value by value.
    Raises what SQLAlchemy would raise, so that an outage is known as one."""
    driver: Any = conn.connection.driver_connection
    dialect = conn.dialect
    try:
        with driver.cursor() as cursor, cursor.copy(text) as copy:
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)
    except dialect.loaded_dbapi.Error as error:
        raise DBAPIError.instance(
            text, None, error, dialect.loaded_dbapi.Error, dialect=dialect
        ) from error


@cache
def _insert_text(table: Table, columns: tuple[str, ...]) -> str:
    places = ", ".join("?" * len(columns))
    return f"INSERT INTO {table.name} ({_quoted(columns)}) VALUES ({places})"


@cache
def _insert_or_move_text(
    table: Table, columns: tuple[str, ...], moved: tuple[str, ...], rows: str, place: str
) -> str:
    places = ", ".join(place.format(type=_type(table.c[name])) for name in columns)
    return (
        f"INSERT INTO {table.name} ({_quoted(columns)}) "
        f"{rows.format(values=places)} "
        f"ON CONFLICT ({_quoted(table.primary_key.columns.keys())}) "
        f"DO UPDATE SET {', '.join(moved)}"
    )


@cache
def _type(column: Any) -> str:
    """PostgreSQL's name of a column's type."""
    dialect: Any = postgresql.dialect  # its class has no types of its own
    return str(column.type.compile(dialect=dialect()))


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
