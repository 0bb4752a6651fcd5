"""The condition that a column has one of many values, as one parameter. So there is one statement
for every number of values.

An index leads the statement, and each value costs one look into it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, any_, bindparam, cast, func, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.types import NullType

from billing.db.arrays import array_text


def in_list(
    conn: Connection, column: ColumnElement[Any], values: Sequence[str] | Sequence[int]
) -> Any:
    """The condition for texts or for whole numbers."""
    if conn.dialect.name == "postgresql":
        text = bindparam(None, array_text(values), type_=NullType())
        return column == any_(cast(text, ARRAY(column.type)))
    each = func.json_each(json.dumps(list(values))).table_valued("value")
    return column.in_(select(each.c.value))
