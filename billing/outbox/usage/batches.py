"""Cuts booking order into batches of usage, and reads a batch when it is sent.

An endpoint has one batch on its way. The next one is cut once that has arrived, so that batches
arrive in order. A batch that has failed for good holds the later ones until it is sent again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection

from billing.db.engine import Store
from billing.db.insert import insert_new
from billing.outbox.event import EventType
from billing.outbox.store import DELIVERY
from billing.outbox.store import EVENT as OUTBOX_EVENT
from billing.outbox.usage import places
from billing.outbox.usage.cloud_event import batch_of
from billing.outbox.usage.span import Key, UsageSpan, ranges, span_of

CALLS_MAX = 500
"""In one batch: about 400 KB."""
SCANNED_MAX = 50_000
"""How many calls of all organizations are looked through for those of one."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CursorStep:
    """How a cursor moves, and the batch that begins there."""

    cursor: Row
    values: Row
    span: UsageSpan | None = None


def cut_batches(store: Store, now_us: int, *, interval_us: int) -> None:
    """Begin the batches that are due. Fewer calls than fill one wait for others, for so long."""
    with store.read() as conn:
        cursors = places.cursors(conn)
        steps = [_step(conn, cursor, now_us, interval_us) for cursor in cursors]
    if not any(step.values for step in steps):
        return
    with store.write() as conn:
        for step in steps:
            _take(conn, step, now_us)
        places.drop_passed(conn)


def batch(conn: Connection, body: str) -> bytes:
    """What is sent for the body of an event of usage."""
    return batch_of(places.records(conn, span_of(body)))


def _step(conn: Connection, cursor: Row, now_us: int, interval_us: int) -> CursorStep:
    if cursor["state"] in ("pending", "failed"):
        return CursorStep(cursor, {})
    after: Key = cursor["place_us"], cursor["rid"]
    if cursor["state"] == "delivered":
        after = cursor["upto_us"], cursor["upto_rid"]
    arrived = {"place_us": after[0], "rid": after[1], "event_id": ""} if cursor["event_id"] else {}
    is_waiting = now_us < cursor["cut_us"] + interval_us
    if is_waiting and cursor["org"]:
        return CursorStep(cursor, arrived)
    bookings, is_all = places.behind(conn, after, SCANNED_MAX if cursor["org"] else CALLS_MAX)
    if not bookings or (is_waiting and sum(row["calls"] for row in bookings) < CALLS_MAX):
        return CursorStep(cursor, arrived)
    span, is_whole = _span(conn, cursor, after, bookings)
    since = {"cut_us": now_us} if is_all and is_whole else {}
    if span is None:
        end_us = bookings[-1]["place_us"] + 1
        return CursorStep(cursor, {"place_us": end_us, "rid": "", "event_id": "", **since})
    begun = {"event_id": span.event_id, "upto_us": span.upto[0], "upto_rid": span.upto[1]}
    return CursorStep(cursor, {"place_us": after[0], "rid": after[1], **begun, **since}, span)


def _span(
    conn: Connection, cursor: Row, after: Key, bookings: list[Row]
) -> tuple[UsageSpan | None, bool]:
    """The next batch of these bookings, and whether it ends with the last one."""
    span = UsageSpan(
        *(cursor["endpoint_id"], cursor["org"], after, (bookings[-1]["place_us"] + 1, "")),
        ended=tuple(ranges((first, last) for row in bookings for first, last in row["ended"])),
        corrections=tuple((rid, n) for row in bookings for rid, n in row["corrections"]),
    )
    keys = sorted({places.key_of(row) for row in places.records(conn, span, CALLS_MAX + 1)})
    if not keys:
        return None, True
    if len(keys) <= CALLS_MAX:
        return span, True
    return replace(span, upto=keys[CALLS_MAX - 1]), False


def _take(conn: Connection, step: CursorStep, now_us: int) -> None:
    if not step.values or not places.move(conn, step.cursor, step.values) or step.span is None:
        return
    span = step.span
    event = {"event_id": span.event_id, "type": EventType.USAGE.value, "org": span.org}
    insert_new(conn, OUTBOX_EVENT, [event | {"body": span.body, "created_us": now_us}])
    delivery = {"endpoint_id": span.endpoint_id, "event_id": span.event_id, "state": "pending"}
    times = {"due_us": now_us, "created_us": now_us, "changed_us": now_us}
    insert_new(conn, DELIVERY, [delivery | {"tries": 0} | times])
