"""A ledger made larger: copies of every call that is booked, by set-based SQL.

A copy is another call of the same instant, key and price: an event and its transfers under request
ids of their own. It has the place in booking order of the call that it is a copy of. Sums, and the
totals of accounts, are multiplied, so every law still holds. Indexes are made anew at the end,
which is what it costs least in. The calls must have no attempts, credits, budgets or corrections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from sqlalchemy import Connection, Table

from billing.charges import sums as charges
from billing.charges.store import SUM
from billing.db.engine import Store
from billing.ledger.store import ACCOUNT, TRANSFER
from billing.usage import rollup
from billing.usage.rollups import DAY, HOUR, ORG_DAY
from billing.usage.store import EVENT

COPIED = (EVENT, TRANSFER)
SUMS = {
    **dict.fromkeys((HOUR, DAY, ORG_DAY), rollup.SUMMED),
    **{SUM: charges.SUMMED, ACCOUNT: ("debits", "credits")},
}
CACHE_KIB = 256 * 1024


def multiply(store: Store, times: int, tell: Callable[[str, int, int], None]) -> None:
    """Have `times` as many calls as there are."""
    with _hurried(store) as conn:
        indexes = _indexes(conn)
        for name, _ in indexes:
            conn.exec_driver_sql(f"DROP INDEX {name}")
        for copy in range(1, times):
            for table in COPIED:
                conn.exec_driver_sql(_copy(table, f"c{copy:04d}_"))
            conn.commit()
            tell("copies of calls", copy, times)
        for table, columns in SUMS.items():
            moved = ", ".join(f"{name} = {name} * {times}" for name in columns)
            conn.exec_driver_sql(f"UPDATE {table.name} SET {moved}")
        for place, (name, text) in enumerate(indexes):
            tell(f"index {name}", place, len(indexes))
            conn.exec_driver_sql(text)
        conn.commit()


def _copy(table: Table, prefix: str) -> str:
    """Of the calls that were booked, whose request ids begin with `req_`."""
    values = {name: f'"{name}"' for name in table.columns.keys()}  # noqa: SIM118
    for name in {"rid", "transfer_id"} & values.keys():
        values[name] = f"'{prefix}' || {name}"
    columns = ", ".join(f'"{name}"' for name in values)
    return (
        f"INSERT INTO {table.name} ({columns}) SELECT {', '.join(values.values())} "
        f"FROM {table.name} WHERE rid >= 'req_' AND rid < 'req`' ORDER BY rid"
    )


@contextmanager
def _hurried(store: Store) -> Iterator[Connection]:
    """A connection that waits for no disk. Nothing else of the store is changed for long."""
    is_sqlite = store.engine.dialect.name == "sqlite"
    with store.engine.connect() as conn:
        if is_sqlite:
            raw = conn.connection.driver_connection
            assert raw is not None
            for pragma in ("synchronous = OFF", f"cache_size = -{CACHE_KIB}"):
                raw.execute(f"PRAGMA {pragma}")
        else:
            conn.exec_driver_sql("SET synchronous_commit = off")
            conn.exec_driver_sql("SET maintenance_work_mem = '1GB'")
            conn.commit()
        yield conn
        conn.invalidate()


def _indexes(conn: Connection) -> Sequence[tuple[str, str]]:
    """(name, statement) of the indexes of copied tables that are no constraint."""
    names = ", ".join(f"'{table.name}'" for table in COPIED)
    statement = (
        f"SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name IN ({names})"
        " AND sql IS NOT NULL"
        if conn.dialect.name == "sqlite"
        else f"SELECT indexname, indexdef FROM pg_indexes WHERE tablename IN ({names})"
        " AND indexdef NOT LIKE '%%UNIQUE%%'"
    )
    rows = conn.exec_driver_sql(statement).all()
    return [(name, text) for name, text in rows]
