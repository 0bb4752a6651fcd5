"""A column is one of many values, as one parameter: no statement of its own for every count.

Led by an index, each value costs one look into it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Connection, Text, any_, bindparam, func, select
from sqlalchemy.dialects.postgresql import ARRAY


def among(
    conn: Connection, column: ColumnElement[Any], values: Sequence[str] | Sequence[int]
) -> Any:
    """The condition, for texts or for whole numbers."""
    if conn.dialect.name == "postgresql":
        kind = BigInteger if values and isinstance(values[0], int) else Text
        return column == any_(bindparam(None, list(values), type_=ARRAY(kind)))
    each = func.json_each(json.dumps(list(values))).table_valued("value")
    return column.in_(select(each.c.value))
