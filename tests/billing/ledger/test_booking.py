"""Two writers on one database, which take over from each other."""

from __future__ import annotations

import asyncio
import time

from billing.db.engine import Store
from billing.ledger.booking import Record, RecordKind, book, read
from billing.prices.versions import load_book
from billing.queries import call_by_rid, open_call
from billing.types import encode
from tests.billing.calls import opened_call, settled_call
from tests.billing.ledger_parts import eventually

AMOUNT = 220 + 1120 + 1
RESERVED = Record(0, "1-0", RecordKind.RESERVED, "req_1", encode(opened_call()))
SETTLED = Record(0, "2-0", RecordKind.SETTLED, "req_1", encode(settled_call(opened_call(), AMOUNT)))


def book_one(store: Store, record: Record) -> None:
    batch = read([record], load_book(store), time.time_ns() // 1000)
    with store.write() as conn:
        book(conn, batch)


def waits_for_a_lock(store: Store) -> bool:
    with store.read() as conn:
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        return bool(conn.exec_driver_sql(waiting).scalar_one())


async def test_call_whose_end_another_writer_books_meanwhile_does_not_stay_open(
    postgres_store: Store,
) -> None:
    """One writer woke up with the record that the call was admitted; its transaction sees nothing
    of the other one, and commits last."""
    store = postgres_store
    batch = read([RESERVED], load_book(store), time.time_ns() // 1000)
    with store.write() as conn:
        book(conn, batch)
        other = asyncio.create_task(asyncio.to_thread(book_one, store, SETTLED))
        await eventually(lambda: other.done() or waits_for_a_lock(store))
    await other
    assert call_by_rid(store, "req_1") is not None
    assert open_call(store, "req_1") is None
