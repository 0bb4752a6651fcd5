"""The first rows that an auditor looks for. There should be none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, select

ROWS_MAX = 3


def first_rows(conn: Connection, statement: Select[Any]) -> Sequence[Row[Any]]:
    """The first rows of a statement. PostgreSQL finds all of them first, and then a few are taken.
    With a limit in the statement PostgreSQL expects to meet the rows soon. Where there are none it
    then compares every row with every other."""
    if conn.dialect.name == "postgresql":
        statement = select(statement.cte("found").prefix_with("MATERIALIZED"))
    return conn.execute(statement.limit(ROWS_MAX)).all()
