"""A column is one of many values, as one parameter: no statement of its own for every count."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Text, any_, bindparam, func, select
from sqlalchemy.dialects.postgresql import ARRAY


def among(conn: Connection, column: ColumnElement[Any], values: Sequence[str]) -> Any:
    """The condition, for texts."""
    if conn.dialect.name == "postgresql":
        return column == any_(bindparam(None, list(values), type_=ARRAY(Text)))
    each = func.json_each(json.dumps(list(values))).table_valued("value")
    return column.in_(select(each.c.value))
