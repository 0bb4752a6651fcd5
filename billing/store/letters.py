"""Statements on dead letters: records that could not be booked, and what became of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Select, func, insert, select

from billing.store.among import among
from billing.store.insert import Row, insert_new
from billing.tables import DeadLetter, DeadLetterResolution, table_of

LETTER = table_of(DeadLetter)
RESOLUTION = table_of(DeadLetterResolution)
BOOKED, JUDGED = "booked", "judged"
CHARS_MAX = 2000


def add(conn: Connection, rows: Sequence[Row]) -> None:
    """A letter is there once for each reason, however often its entry is tried."""
    insert_new(conn, LETTER, [_sayable(row) for row in rows])


def _sayable(row: Row) -> dict[str, Any]:
    """What a stray entry says of itself may hold a NUL, which PostgreSQL keeps in no text."""
    return {
        name: value.replace("\0", "\ufffd")[:CHARS_MAX] if isinstance(value, str) else value
        for name, value in row.items()
    }


def resolve(conn: Connection, row: Row) -> None:
    """Raises IntegrityError for a letter that is resolved already."""
    conn.execute(insert(RESOLUTION).values(**row))


def listed(
    conn: Connection, *, resolved_too: bool, after: int = 0, limit: int | None = None
) -> list[dict[str, Any]]:
    """In the order in which they came, from the one after `after`, with what became of them."""
    found = _letters().where(LETTER.c.id > after).order_by(LETTER.c.id).limit(limit)
    if not resolved_too:
        found = found.where(RESOLUTION.c.letter_id.is_(None))
    return [dict(row) for row in conn.execute(found).mappings()]


def lock(conn: Connection, letter_id: int) -> None:
    """Nobody else resolves it until the end of the transaction."""
    conn.execute(select(LETTER.c.id).where(LETTER.c.id == letter_id).with_for_update())


def one(conn: Connection, letter_id: int) -> dict[str, Any] | None:
    row = conn.execute(_letters().where(LETTER.c.id == letter_id)).mappings().first()
    return dict(row) if row else None


def counts(conn: Connection) -> dict[str | None, int]:
    """How many letters came to each outcome; None is none so far."""
    outcome = RESOLUTION.c.outcome
    asked = select(outcome, func.count()).select_from(_joined()).group_by(outcome)
    return {name: count for name, count in conn.execute(asked)}


def written_off(conn: Connection, rids: Sequence[str]) -> set[str]:
    """Those of these request ids of whose end a person has judged the letter."""
    of_an_end = (RESOLUTION.c.outcome == JUDGED) & (LETTER.c.kind != "reserved")
    asked = (
        select(LETTER.c.rid)
        .join(RESOLUTION, RESOLUTION.c.letter_id == LETTER.c.id)
        .where(of_an_end, among(conn, LETTER.c.rid, rids))
    )
    return set(conn.execute(asked).scalars())


def _letters() -> Select[Any]:
    names = ("outcome", "resolved_by", "note", "resolved_us")
    return select(LETTER, *(RESOLUTION.c[name] for name in names)).select_from(_joined())


def _joined() -> Any:
    return LETTER.outerjoin(RESOLUTION, RESOLUTION.c.letter_id == LETTER.c.id)
