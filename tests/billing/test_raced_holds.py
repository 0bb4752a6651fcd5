"""A call's beginning that one writer books while another books its end: its hold does not stay."""

from __future__ import annotations

from sqlalchemy import Connection

from billing import ledger
from billing.ledger import Record
from billing.prices import load_book
from billing.store import holds
from billing.store.engine import Store
from billing.types import CallStatus, OpenedCall, SettledCall, Usage, UsageSource, encode
from tests.billing.calls import ADMITTED_US, opened_call, settled_call

NOW_US = ADMITTED_US + 10**6


def record(call: OpenedCall | SettledCall, entry: str) -> Record:
    kind = "settled" if isinstance(call, SettledCall) else "reserved"
    return Record(0, entry, kind, call.rid, encode(call))


def book(conn: Connection, store: Store, *records: Record) -> None:
    assert not ledger.book(conn, ledger.read(records, load_book(store), NOW_US)).failures


def open_holds(store: Store) -> list[str]:
    with store.read() as conn:
        return [row["rid"] for row in holds.admitted_before(conn, NOW_US, 10)]


def test_hold_that_a_race_left_behind_is_closed_by_the_next_word_of_its_call(
    postgres_store: Store,
) -> None:
    """Whoever takes over deliveries may book the beginning last: it does not see an end that is
    not committed yet. The reaper then closes what Redis does not know, by an estimate of nothing.
    """
    opened = opened_call()
    ended = settled_call(opened, 220 + 1120 + 1)
    with postgres_store.write() as one:
        book(one, postgres_store, record(ended, "2-0"))
        with postgres_store.write() as other:
            book(other, postgres_store, record(opened, "1-0"))
    assert open_holds(postgres_store) == [opened.rid]
    nothing = settled_call(
        opened,
        0,
        source=UsageSource.ESTIMATED,
        status=CallStatus.FAILED,
        **{name: 0 for name in Usage.__struct_fields__},
    )
    with postgres_store.write() as conn:
        book(conn, postgres_store, record(nothing, "3-0"))
    assert open_holds(postgres_store) == []


def test_end_that_is_delivered_again_closes_a_hold_too(postgres_store: Store) -> None:
    opened = opened_call()
    ended = settled_call(opened, 220 + 1120 + 1)
    with postgres_store.write() as one:
        book(one, postgres_store, record(ended, "2-0"))
        with postgres_store.write() as other:
            book(other, postgres_store, record(opened, "1-0"))
    with postgres_store.write() as conn:
        book(conn, postgres_store, record(ended, "4-0"))
    assert open_holds(postgres_store) == []
