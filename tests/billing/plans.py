"""How a database would find the rows of what is asked: by which columns, or by a look at all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import psycopg
from sqlalchemy import event

from billing.db.engine import Store

SORTED = "sorted"
STEP = re.compile(r"(?:SEARCH|SCAN) (\w+)(.*)")


class Access(NamedTuple):
    """One table, and the condition that leads into it: empty if nothing does. What is put in order
    afterwards, rather than found in it, is a look into the table SORTED."""

    table: str
    led_by: str
    statement: str = ""

    @property
    def columns(self) -> set[str]:
        return set(re.findall(r"(\w+)\)?(?:::\w+)? ?(?:=|<|>)", self.led_by))


def accesses(store: Store, ask: Callable[[], object]) -> list[Access]:
    """Of every SELECT that asking makes, each look into a table."""
    with planned(store) as found:
        ask()
    return found


@contextmanager
def planned(store: Store) -> Iterator[list[Access]]:
    """Of every SELECT meanwhile, each look into a table. PostgreSQL is told to avoid reading whole
    tables: where it plans to all the same, no index could lead it."""
    found: list[Access] = []
    plan = _postgresql if store.engine.dialect.name == "postgresql" else _sqlite

    def explain(conn: Any, _cursor: Any, statement: str, parameters: Any, *_rest: Any) -> None:
        if statement.lstrip().startswith(("SELECT", "WITH")):
            looks = plan(conn.connection.driver_connection, statement, parameters)
            found.extend(look._replace(statement=statement) for look in looks)

    event.listen(store.engine, "before_cursor_execute", explain)
    try:
        yield found
    finally:
        event.remove(store.engine, "before_cursor_execute", explain)


def _sqlite(driver: Any, statement: str, parameters: Any) -> Iterator[Access]:
    for *_, step in driver.cursor().execute(f"EXPLAIN QUERY PLAN {statement}", parameters):
        if step == "USE TEMP B-TREE FOR ORDER BY":
            yield Access(SORTED, "")
        elif found := STEP.match(step):
            table, how = found.groups()
            led_by = how.partition("(")[2] if step.startswith("SEARCH") else ""
            yield Access(table, led_by)


def _postgresql(driver: Any, statement: str, parameters: Any) -> Iterator[Access]:
    with psycopg.ClientCursor(driver) as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN (FORMAT JSON) {statement}", parameters)
        row: Any = cursor.fetchone()
    yield from _nodes(row[0][0]["Plan"])


def _nodes(plan: dict[str, Any]) -> Iterator[Access]:
    if table := plan.get("Relation Name"):
        yield Access(table, plan.get("Index Cond") or plan.get("Recheck Cond") or "")
    if plan["Node Type"] == "Sort":
        yield Access(SORTED, "")
    for child in plan.get("Plans", ()):
        yield from _nodes(child)
