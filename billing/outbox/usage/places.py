"""Statements on bookings that endpoints have yet to be told, and on how far each has usage.

A booking has a place: a later one has a later place, in whatever process, and no booking comes to a
place that others can see to have passed. While an endpoint takes usage each booking leaves one row,
whatever its number of calls; without one, nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, tuple_, update

from billing.charges.store import next_place
from billing.db.columns import table_of
from billing.db.engine import take_turns
from billing.db.in_list import in_list
from billing.ledger.posting import Posting
from billing.outbox.event import EventType
from billing.outbox.tables import UsageCursor, UsagePlace, WebhookDelivery, WebhookEndpoint
from billing.outbox.usage.span import Key, UsageSpan, ranges
from billing.usage.store import CORRECTION, EVENT

PLACE = table_of(UsagePlace)
CURSOR = table_of(UsageCursor)
ENDPOINT = table_of(WebhookEndpoint)
DELIVERY = table_of(WebhookDelivery)
BOOKING_LOCK = 0x51_75_1C_E1
"""Of bookings, which take turns, and of whoever begins to follow them."""
PLACES_MAX = 1000

Row = dict[str, Any]


def newest(conn: Connection) -> int | None:
    """The newest place that an endpoint of usage knows of. None: no endpoint takes usage."""
    newest_booking = select(func.max(PLACE.c.place_us)).scalar_subquery()
    newest_cursor = func.max(CURSOR.c.place_us)
    cursor_us, place_us = conn.execute(select(newest_cursor, newest_booking)).one()
    return None if cursor_us is None else max(cursor_us, place_us or 0)


def keep(conn: Connection, place_us: int, postings: Sequence[Posting]) -> None:
    """Leave a row of a booking."""
    rows = [entry.usage for entry in postings]
    if not rows:
        return
    corrections = [(entry.usage["rid"], entry.n) for entry in postings if entry.n > 1]
    ended = ranges((row["ended_us"], row["ended_us"]) for row in rows)
    row = {"place_us": place_us, "calls": len(rows), "ended": ended, "corrections": corrections}
    conn.execute(insert(PLACE), [row])


def follow(conn: Connection, endpoint: Row, now_us: int) -> None:
    """Begin to tell an endpoint usage, from here on, or end it, as it wants by now. Call it in the
    transaction in which the endpoint changes."""
    is_wanted = endpoint["is_enabled"] and EventType.USAGE in endpoint["events"]
    of_it = CURSOR.c.endpoint_id == endpoint["endpoint_id"]
    if not is_wanted:
        conn.execute(delete(CURSOR).where(of_it))
        drop_passed(conn)
    elif conn.execute(select(CURSOR.c.endpoint_id).where(of_it)).first() is None:
        take_turns(conn, BOOKING_LOCK)
        place_us = max(next_place(conn, now_us), (newest(conn) or 0) + 1)
        row = {"endpoint_id": endpoint["endpoint_id"], "place_us": place_us, "cut_us": now_us}
        empty = {"rid": "", "event_id": "", "upto_us": 0, "upto_rid": ""}
        conn.execute(insert(CURSOR), [row | empty])


def cursors(conn: Connection) -> list[Row]:
    """Each with its endpoint's organization, and the state of the batch that is on its way."""
    on_its_way = (DELIVERY.c.endpoint_id == CURSOR.c.endpoint_id) & (
        DELIVERY.c.event_id == CURSOR.c.event_id
    )
    statement = (
        select(CURSOR, ENDPOINT.c.org, DELIVERY.c.state)
        .join(ENDPOINT, ENDPOINT.c.endpoint_id == CURSOR.c.endpoint_id)
        .outerjoin(DELIVERY, on_its_way)
        .order_by(CURSOR.c.endpoint_id)
    )
    return [dict(row) for row in conn.execute(statement).mappings()]


def move(conn: Connection, cursor: Row, values: Row) -> bool:
    """Change a cursor. False where somebody else has changed it."""
    names = ("endpoint_id", "place_us", "rid", "event_id")
    same = (CURSOR.c[name] == cursor[name] for name in names)
    return conn.execute(update(CURSOR).where(*same).values(**values)).rowcount == 1


def behind(conn: Connection, after: Key, calls: int) -> tuple[list[Row], bool]:
    """The next bookings, with so many calls or a few more, and whether these are all."""
    statement = select(PLACE).where(PLACE.c.place_us >= after[0]).order_by(PLACE.c.place_us)
    bookings: list[Row] = []
    for row in conn.execute(statement.limit(PLACES_MAX)).mappings():
        bookings.append(dict(row))
        calls -= row["calls"]
        if calls < 0:
            return bookings, False
    return bookings, len(bookings) < PLACES_MAX


def drop_passed(conn: Connection) -> None:
    """Delete the rows that every endpoint has."""
    first_us = conn.execute(select(func.min(CURSOR.c.place_us))).scalar_one()
    deletion = delete(PLACE)
    if first_us is not None:
        deletion = deletion.where(PLACE.c.place_us < first_us)
    conn.execute(deletion)


def records(conn: Connection, span: UsageSpan, limit: int | None = None) -> list[Row]:
    """The records of a span in booking order, each with its `n` and what it changed. With a limit,
    at least the first ones, so many."""
    rows = [*_events(conn, span, limit), *_corrections(conn, span)]
    return sorted(rows, key=lambda row: (*key_of(row), row["n"]))


def key_of(record: Row) -> Key:
    return record["ingested_us"], record["rid"]


def _events(conn: Connection, span: UsageSpan, limit: int | None) -> list[Row]:
    order = EVENT.c.ingested_us, EVENT.c.rid
    within = tuple_(*order) > span.after, tuple_(*order) <= span.upto
    statement = select(EVENT).where(*within).order_by(*order).limit(limit)
    if span.org:
        statement = statement.where(EVENT.c.org == span.org)
    events: list[Row] = []
    for first_us, last_us in span.ended:
        part = statement.where(EVENT.c.ended_us >= first_us, EVENT.c.ended_us <= last_us)
        events += [dict(row) for row in conn.execute(part).mappings()]
    return [row | {"n": 1, "change_nanousd": row["amount_nanousd"]} for row in events]


def _corrections(conn: Connection, span: UsageSpan) -> list[Row]:
    rids = sorted({rid for rid, _ in span.corrections})
    if not rids:
        return []
    events = select(EVENT.c.rid, EVENT.c.amount_nanousd).where(in_list(conn, EVENT.c.rid, rids))
    amounts = {(rid, 1): amount for rid, amount in conn.execute(events)}
    better = select(CORRECTION).where(in_list(conn, CORRECTION.c.rid, rids))
    rows = [dict(row) for row in conn.execute(better).mappings()]
    amounts |= {(row["rid"], row["n"]): row["amount_nanousd"] for row in rows}
    return [
        row | {"change_nanousd": row["amount_nanousd"] - amounts[row["rid"], row["n"] - 1]}
        for row in rows
        if span.has(key_of(row)) and span.org in ("", row["org"])
    ]
