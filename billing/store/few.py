"""The first rows of what an auditor looks for: there should be none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, select

FEW = 3


def few(conn: Connection, statement: Select[Any]) -> Sequence[Row[Any]]:
    """PostgreSQL finds all of them first. Told that a few are enough it would think to meet them
    soon, where there are none, and compare every row with every other on the way."""
    if conn.dialect.name == "postgresql":
        statement = select(statement.cte("found").prefix_with("MATERIALIZED"))
    return conn.execute(statement.limit(FEW)).all()
