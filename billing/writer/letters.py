"""Statements on dead letters: records that could not be booked, and their resolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Select, func, insert, select

from billing.db.columns import table_of
from billing.db.in_list import in_list
from billing.db.insert import Row, insert_new
from billing.writer.tables import DeadLetter, DeadLetterResolution

LETTER = table_of(DeadLetter)
RESOLUTION = table_of(DeadLetterResolution)
BOOKED, JUDGED = "booked", "judged"
CHARS_MAX = 2000


def add(conn: Connection, rows: Sequence[Row]) -> None:
    """Insert letters. There is one letter for each entry and reason, however often the entry is
    tried."""
    insert_new(conn, LETTER, [_sayable(row) for row in rows])


def _sayable(row: Row) -> dict[str, Any]:
    """A text without NUL. A stray entry may hold one, and PostgreSQL keeps no text with a NUL."""
    return {
        name: value.replace("\0", "\ufffd")[:CHARS_MAX] if isinstance(value, str) else value
        for name, value in row.items()
    }


def resolve(conn: Connection, row: Row) -> None:
    """Insert a resolution. Raises IntegrityError for a letter that has one already."""
    conn.execute(insert(RESOLUTION).values(**row))


def listed(
    conn: Connection, *, resolved_too: bool, after: int = 0, limit: int | None = None
) -> list[dict[str, Any]]:
    """Letters in the order in which they came, from the one after `after`, with their
    resolutions."""
    statement = _letters().where(LETTER.c.id > after).order_by(LETTER.c.id).limit(limit)
    if not resolved_too:
        statement = statement.where(RESOLUTION.c.letter_id.is_(None))
    return [dict(row) for row in conn.execute(statement).mappings()]


def lock(conn: Connection, letter_id: int) -> None:
    """Lock a letter until the end of the transaction, so that no other transaction resolves it."""
    conn.execute(select(LETTER.c.id).where(LETTER.c.id == letter_id).with_for_update())


def one(conn: Connection, letter_id: int) -> dict[str, Any] | None:
    row = conn.execute(_letters().where(LETTER.c.id == letter_id)).mappings().first()
    return dict(row) if row else None


def counts(conn: Connection) -> dict[str | None, int]:
    """The number of letters for each outcome. None is a letter without one."""
    outcome = RESOLUTION.c.outcome
    statement = select(outcome, func.count()).select_from(_joined()).group_by(outcome)
    return {name: count for name, count in conn.execute(statement)}


def written_off(conn: Connection, rids: Sequence[str]) -> set[str]:
    """Those of these request ids for which a person has judged the letter of an end."""
    of_an_end = (RESOLUTION.c.outcome == JUDGED) & (LETTER.c.kind != "reserved")
    statement = (
        select(LETTER.c.rid)
        .join(RESOLUTION, RESOLUTION.c.letter_id == LETTER.c.id)
        .where(of_an_end, in_list(conn, LETTER.c.rid, rids))
    )
    return set(conn.execute(statement).scalars())


def _letters() -> Select[Any]:
    names = ("outcome", "resolved_by", "note", "resolved_us")
    return select(LETTER, *(RESOLUTION.c[name] for name in names)).select_from(_joined())


def _joined() -> Any:
    return LETTER.outerjoin(RESOLUTION, RESOLUTION.c.letter_id == LETTER.c.id)
