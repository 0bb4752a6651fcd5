"""Statements on the outbox. An event is written in the transaction of what it tells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, func, insert, select, tuple_, update
from sqlalchemy import delete as delete_from

from billing.db.columns import table_of
from billing.db.in_list import in_list
from billing.db.insert import insert_new
from billing.outbox.event import EventType, OutboxEvent, next_try_us
from billing.outbox.tables import (
    OutboxEventRow,
    UsageCursor,
    WebhookDelivery,
    WebhookEndpoint,
    WebhookTry,
)

EVENT = table_of(OutboxEventRow)
ENDPOINT = table_of(WebhookEndpoint)
DELIVERY = table_of(WebhookDelivery)
TRY = table_of(WebhookTry)
CURSOR = table_of(UsageCursor)
PROBLEM_CHARS_MAX = 300

Row = dict[str, Any]


def tell(conn: Connection, event: OutboxEvent) -> None:
    """Write an event once, and who is to hear of it. Call it where it happens, in the same
    transaction."""
    event_id, at_us = event.event_id, event.at_us
    known = select(EVENT.c.event_id).where(EVENT.c.event_id == event_id)
    if conn.execute(known).first() is not None:
        return
    row = {"event_id": event_id, "type": event.type.value, "org": event.org, "body": event.body}
    insert_new(conn, EVENT, [row | {"created_us": at_us}])
    wanted = [each["endpoint_id"] for each in endpoints(conn) if _wants(each, event)]
    common = {"event_id": event_id, "state": "pending", "tries": 0, "due_us": at_us}
    common |= {"created_us": at_us, "changed_us": at_us}
    insert_new(conn, DELIVERY, [{"endpoint_id": each, **common} for each in wanted])


def _wants(endpoint: Row, event: OutboxEvent) -> bool:
    is_of_org = endpoint["org"] in ("", event.org)
    is_of_type = not endpoint["events"] or event.type.value in endpoint["events"]
    return bool(endpoint["is_enabled"]) and is_of_org and is_of_type


def endpoints(conn: Connection, *, after: str | None = None, limit: int | None = None) -> list[Row]:
    """By their ids, from the one behind an id."""
    statement = select(ENDPOINT).order_by(ENDPOINT.c.endpoint_id).limit(limit)
    if after is not None:
        statement = statement.where(ENDPOINT.c.endpoint_id > after)
    return [dict(row) for row in conn.execute(statement).mappings()]


def endpoint(conn: Connection, endpoint_id: str) -> Row | None:
    found = select(ENDPOINT).where(ENDPOINT.c.endpoint_id == endpoint_id)
    row = conn.execute(found).mappings().first()
    return dict(row) if row else None


def insert_endpoint(conn: Connection, row: Row) -> None:
    conn.execute(insert(ENDPOINT), [row])


def change_endpoint(conn: Connection, endpoint_id: str, **values: Any) -> None:
    conn.execute(update(ENDPOINT).where(ENDPOINT.c.endpoint_id == endpoint_id).values(**values))


def delete_endpoint(conn: Connection, endpoint_id: str) -> None:
    """With its deliveries; events stay."""
    for table in (CURSOR, TRY, DELIVERY, ENDPOINT):
        conn.execute(delete_from(table).where(table.c.endpoint_id == endpoint_id))


def due(
    conn: Connection, now_us: int, limit: int, *, of_endpoint: int, but: Sequence[str] = ()
) -> list[Row]:
    """Deliveries to enabled endpoints that are due, the longest first, with body and endpoint. So
    many of one endpoint at most: a backlog of its own hides no others. Of batches of usage an
    endpoint has the oldest one alone, so that they arrive in order. None of the endpoints `but`."""
    joined = DELIVERY.join(EVENT, EVENT.c.event_id == DELIVERY.c.event_id).join(
        ENDPOINT, ENDPOINT.c.endpoint_id == DELIVERY.c.endpoint_id
    )
    names = ("url", "secret", "previous_secret", "previous_until_us")
    order = DELIVERY.c.due_us, DELIVERY.c.event_id
    place = func.row_number().over(partition_by=DELIVERY.c.endpoint_id, order_by=order)
    places = (
        select(DELIVERY.c.endpoint_id, DELIVERY.c.event_id, place.label("place"))
        .join(EVENT, EVENT.c.event_id == DELIVERY.c.event_id)
        .where(DELIVERY.c.state == "pending", DELIVERY.c.due_us <= now_us, _is_first())
        .where(~in_list(conn, DELIVERY.c.endpoint_id, but))
        .subquery("places")
    )
    statement = (
        select(
            DELIVERY, EVENT.c.type, EVENT.c.body, EVENT.c.org, *(ENDPOINT.c[name] for name in names)
        )
        .select_from(joined.join(places, _is(places.c)))
        .where(places.c.place <= of_endpoint, ENDPOINT.c.is_enabled)
        .order_by(*order)
        .limit(limit)
    )
    return [dict(row) for row in conn.execute(statement).mappings()]


def _is_first() -> ColumnElement[bool]:
    """That a delivery is no batch of usage behind another one of its endpoint."""
    other, event = DELIVERY.alias("other"), EVENT.alias("event")
    older = (
        select(other.c.event_id)
        .join(event, event.c.event_id == other.c.event_id)
        .where(other.c.endpoint_id == DELIVERY.c.endpoint_id, other.c.state == "pending")
        .where(event.c.type == EventType.USAGE)
        .where(
            tuple_(other.c.created_us, other.c.event_id)
            < tuple_(DELIVERY.c.created_us, DELIVERY.c.event_id)
        )
    )
    return (EVENT.c.type != EventType.USAGE) | ~older.correlate(DELIVERY).exists()


def claim(conn: Connection, delivery: Row, until_us: int) -> bool:
    """Have nobody else send it until then. False where somebody else has it."""
    unchanged = _is(delivery) & (DELIVERY.c.due_us == delivery["due_us"])
    pending = unchanged & (DELIVERY.c.state == "pending")
    return conn.execute(update(DELIVERY).where(pending).values(due_us=until_us)).rowcount == 1


def note(conn: Connection, delivery: Row, *, status: int | None, problem: str, now_us: int) -> None:
    """How a sending went. What did not arrive is due again after a longer pause, or has failed."""
    row = {"endpoint_id": delivery["endpoint_id"], "event_id": delivery["event_id"]}
    row |= {"at_us": now_us, "status": status, "problem": problem[:PROBLEM_CHARS_MAX]}
    conn.execute(insert(TRY), [row])
    tries = delivery["tries"] + 1
    next_us = next_try_us(tries, now_us)
    has_arrived = status is not None and 200 <= status < 300
    state = "delivered" if has_arrived else "pending" if next_us else "failed"
    values = {"state": state, "tries": tries, "changed_us": now_us, "due_us": next_us or now_us}
    conn.execute(update(DELIVERY).where(_is(delivery)).values(**values))


def replay(
    conn: Connection,
    endpoint_id: str,
    now_us: int,
    *,
    event_id: str | None = None,
    since_us: int = 0,
) -> int:
    """Send again what an endpoint was told or not, one event or all since an instant. How many."""
    which = (DELIVERY.c.endpoint_id == endpoint_id) & (DELIVERY.c.created_us >= since_us)
    if event_id is not None:
        which &= DELIVERY.c.event_id == event_id
    values = {"state": "pending", "tries": 0, "due_us": now_us, "changed_us": now_us}
    return int(conn.execute(update(DELIVERY).where(which).values(**values)).rowcount)


def prune(conn: Connection, before_us: int, limit: int) -> int:
    """Remove so many deliveries at most that arrived or failed before an instant, with their
    sendings. How many."""
    is_over = DELIVERY.c.state.in_(("delivered", "failed"))
    names = DELIVERY.c.endpoint_id, DELIVERY.c.event_id
    old = select(*names).where(is_over, DELIVERY.c.due_us < before_us).limit(limit)
    statement = delete_from(DELIVERY).where(tuple_(*names).in_(old), is_over).returning(*names)
    gone = [tuple(row) for row in conn.execute(statement)]
    for endpoint_id in {each for each, _ in gone}:
        event_ids = [event_id for each, event_id in gone if each == endpoint_id]
        of_them = (TRY.c.endpoint_id == endpoint_id) & in_list(conn, TRY.c.event_id, event_ids)
        conn.execute(delete_from(TRY).where(of_them))
    return len(gone)


def prune_events(conn: Connection, before_us: int, limit: int) -> int:
    """Remove so many events at most that happened before an instant and have no delivery left. How
    many."""
    delivered = select(DELIVERY.c.event_id).where(DELIVERY.c.event_id == EVENT.c.event_id)
    is_old = EVENT.c.created_us < before_us
    old = select(EVENT.c.event_id).where(is_old, ~delivered.exists()).limit(limit)
    return conn.execute(delete_from(EVENT).where(EVENT.c.event_id.in_(old))).rowcount


def deliveries(
    conn: Connection,
    endpoint_id: str,
    *,
    state: str | None = None,
    after: tuple[int, str] | None = None,
    limit: int | None = None,
) -> list[Row]:
    """The oldest first, each with the type of its event and its last try."""
    order = DELIVERY.c.created_us, DELIVERY.c.event_id
    statement = (
        select(DELIVERY, EVENT.c.type)
        .join(EVENT, EVENT.c.event_id == DELIVERY.c.event_id)
        .where(DELIVERY.c.endpoint_id == endpoint_id)
        .order_by(*order)
        .limit(limit)
    )
    if state is not None:
        statement = statement.where(DELIVERY.c.state == state)
    if after is not None:
        statement = statement.where(tuple_(*order) > after)
    found = [dict(row) for row in conn.execute(statement).mappings()]
    return [{**row, "log": tries(conn, row)} for row in found]


def tries(conn: Connection, delivery: Row) -> Sequence[Row]:
    """The sendings of a delivery, the oldest first."""
    of_it = (TRY.c.endpoint_id == delivery["endpoint_id"]) & (
        TRY.c.event_id == delivery["event_id"]
    )
    rows = conn.execute(select(TRY).where(of_it).order_by(TRY.c.try_id)).mappings()
    return [dict(row) for row in rows]


def _is(delivery: Any) -> Any:
    return (DELIVERY.c.endpoint_id == delivery["endpoint_id"]) & (
        DELIVERY.c.event_id == delivery["event_id"]
    )
