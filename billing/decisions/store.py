"""Statements on records of decisions."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, func, insert, select, update

from billing.db.columns import table_of
from billing.db.engine import Store
from billing.db.in_list import in_list
from billing.db.insert import replace_in
from billing.decisions import batch
from billing.decisions.batch import DecisionBytes
from billing.decisions.tables import DecisionBatchRow, DecisionPlaceRow

log = logging.getLogger(__name__)

BATCH = table_of(DecisionBatchRow)
PLACE = table_of(DecisionPlaceRow)
JOINED_BYTES_MAX = 32 << 10
"""A body below this takes in the next records of its gateway: few calls share their parts too."""


class StoredBatch(NamedTuple):
    id: int
    size_bytes: int
    body: bytes


def add(conn: Connection, gateway: str, records: Sequence[DecisionBytes]) -> None:
    """Write records of a gateway. The later record of a call replaces the one before."""
    if not records:
        return
    newest = _open_batch(conn, gateway)
    if newest is None:
        number = _insert(conn, gateway, records)
    else:
        number = newest.id
        _write(conn, number, [*_readable(newest.body), *records])
    rows = [(rid, number) for rid in {each.rid: None for each in records}]
    replace_in(conn, PLACE, ("rid", "batch"), rows, ("batch",))


def record_of(conn: Connection, rid: str) -> DecisionBytes | None:
    """The record of a call. None where there is none that can be read."""
    return records_of(conn, [rid]).get(rid)


def records_of(conn: Connection, rids: Sequence[str]) -> dict[str, DecisionBytes]:
    """The records of these calls. A call without one that can be read is absent."""
    in_use = select(PLACE.c.batch).where(in_list(conn, PLACE.c.rid, rids)).distinct()
    in_order = select(BATCH.c.body).where(BATCH.c.id.in_(in_use)).order_by(BATCH.c.id)
    bodies = conn.execute(in_order).scalars().all()
    calls = frozenset(rids)
    return {each.rid: each for body in bodies for each in _readable(body) if each.rid in calls}


def recorded_since(
    store: Store, since_us: int, *, newest_first: bool = False
) -> Iterator[DecisionBytes]:
    """Records since an instant, by batch. What cannot be read is left out."""
    with store.read() as conn:
        of_range = select(BATCH.c.id).where(BATCH.c.until_us >= since_us).order_by(BATCH.c.id)
        numbers = conn.execute(of_range).scalars().all()
    for number in reversed(numbers) if newest_first else numbers:
        with store.read() as conn:
            body = conn.execute(select(BATCH.c.body).where(BATCH.c.id == number)).scalar()
        records = [each for each in _readable(body or b"") if each.at_us >= since_us]
        yield from reversed(records) if newest_first else records


def oldest_full(conn: Connection, before_us: int) -> StoredBatch | None:
    """A batch that still has all of its records, and whose newest is older than an instant."""
    due = _STORED.where(BATCH.c.is_thinned.is_(False), BATCH.c.until_us < before_us)
    row = conn.execute(due.order_by(BATCH.c.until_us).limit(1)).first()
    return None if row is None else StoredBatch(*row)


def thin(conn: Connection, full: StoredBatch) -> None:
    """Keep the sample of a batch. One that cannot be read is deleted."""
    records = _readable(full.body)
    sample = batch.thinned(records)
    if not sample:
        remove(conn, full)
        return
    rids = {each.rid for each in records} - {each.rid for each in sample}
    _forget(conn, full.id, sorted(rids))
    _write(conn, full.id, sample, is_thinned=True)


def oldest(conn: Connection) -> StoredBatch | None:
    row = conn.execute(_STORED.order_by(BATCH.c.until_us).limit(1)).first()
    return None if row is None else StoredBatch(*row)


def remove(conn: Connection, stored: StoredBatch) -> None:
    _forget(conn, stored.id, sorted({each.rid for each in _readable(stored.body)}))
    conn.execute(delete(BATCH).where(BATCH.c.id == stored.id))


def size_bytes(conn: Connection) -> int:
    """Of all bodies."""
    return int(conn.execute(select(func.coalesce(func.sum(BATCH.c.size_bytes), 0))).scalar_one())


_STORED = select(BATCH.c.id, BATCH.c.size_bytes, BATCH.c.body)


def _open_batch(conn: Connection, gateway: str) -> StoredBatch | None:
    newest = select(*_STORED.selected_columns, BATCH.c.is_thinned).where(BATCH.c.gateway == gateway)
    row = conn.execute(newest.order_by(BATCH.c.id.desc()).limit(1)).first()
    if row is None or row.is_thinned or row.size_bytes >= JOINED_BYTES_MAX:
        return None
    return StoredBatch(*row[:3])


def _insert(conn: Connection, gateway: str, records: Sequence[DecisionBytes]) -> int:
    made = conn.execute(insert(BATCH).values(gateway=gateway, **_values(records)))
    (number,) = made.inserted_primary_key or (0,)
    return int(number)


def _write(conn: Connection, number: int, records: Sequence[DecisionBytes], **more: Any) -> None:
    values = _values(records) | more
    conn.execute(update(BATCH).where(BATCH.c.id == number).values(**values))


def _values(records: Sequence[DecisionBytes]) -> dict[str, Any]:
    body = batch.encode(records)
    instants = [each.at_us for each in records]
    return {
        "from_us": min(instants),
        "until_us": max(instants),
        "decisions": len(records),
        "size_bytes": len(body),
        "body": body,
        "is_thinned": False,
    }


def _readable(body: bytes) -> list[DecisionBytes]:
    try:
        return batch.decode(body)
    except batch.UnreadableBatch as error:
        log.error("records of decisions are lost, their batch cannot be read: %s", error)
        return []


def _forget(conn: Connection, number: int, rids: Sequence[str]) -> None:
    of_batch = PLACE.c.batch == number
    conn.execute(delete(PLACE).where(in_list(conn, PLACE.c.rid, rids), of_batch))
