"""The rows of the ledger.

`transfer`, `usage_event` and `usage_correction` are insert-only, by triggers in the migration:
a wrong amount is corrected by a linked reversal and a new row, and what is attached later
stands in tables of its own. Money is integer nano-USD, times are epoch microseconds.
"""

from __future__ import annotations

from typing import Any, cast

from sqlalchemy import BigInteger as Big
from sqlalchemy import Integer as Int
from sqlalchemy import (
    Table,
)
from sqlmodel import SQLModel

SERIAL = Big().with_variant(Int, "sqlite")  # SQLite counts up only an INTEGER primary key
ONLY_IN_SQLITE = {"engine": "sqlite"}
"""Of a constraint for which PostgreSQL has a trigger: once a statement, not once a row."""


def table_of(row: type[SQLModel]) -> Table:
    """The SQLAlchemy table behind a row class."""
    return cast(Table, cast(Any, row).__table__)
