"""Statements on refused calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, delete, func, select

from billing.db.columns import table_of
from billing.db.insert import insert_new
from billing.refusals.refusal import Refusal
from billing.refusals.tables import RefusalRow

REFUSAL = table_of(RefusalRow)
RETIRED_MAX = 2_000
"""Rows that one transaction removes."""


def add(conn: Connection, refusals: Sequence[Refusal]) -> None:
    """What is there already stays: a ledger that was killed writes the same rows again."""
    insert_new(conn, REFUSAL, [msgspec.structs.asdict(each) for each in refusals])


def newest(
    conn: Connection, limit: int, equals: Mapping[str, str], before: tuple[int, str] | None
) -> list[Refusal]:
    """The newest first. `equals` are columns with their values, and `before` is the instant and the
    id of the row that precedes them."""
    at_us, rid = REFUSAL.c.at_us, REFUSAL.c.rid
    rows = select(REFUSAL).order_by(at_us.desc(), rid.desc()).limit(limit)
    for name, value in equals.items():
        rows = rows.where(REFUSAL.c[name] == value)
    if before is not None:
        rows = rows.where(at_us <= before[0], (at_us < before[0]) | (rid < before[1]))
    return [_refusal(dict(row)) for row in conn.execute(rows).mappings()]


def of_call(conn: Connection, rid: str) -> Refusal | None:
    row = conn.execute(select(REFUSAL).where(REFUSAL.c.rid == rid)).mappings().first()
    return None if row is None else _refusal(dict(row))


def by_side(
    conn: Connection, policy_revision: int, from_us: int, to_us: int, reasons: Sequence[str]
) -> list[tuple[str, bool, int]]:
    """(rule, whether the canary, calls) that a version refused by rules with a canary, for one of
    these reasons."""
    sides = REFUSAL.c.rule, REFUSAL.c.is_canary
    rows = select(*sides, func.sum(REFUSAL.c.calls)).where(
        REFUSAL.c.policy_revision == policy_revision,
        REFUSAL.c.is_canary.is_not(None),
        REFUSAL.c.at_us >= from_us,
        REFUSAL.c.at_us < to_us,
        REFUSAL.c.reason.in_(reasons),
    )
    return [(row[0], bool(row[1]), int(row[2])) for row in conn.execute(rows.group_by(*sides))]


def retire(conn: Connection, before_us: int, rows_max: int) -> int:
    """Remove rows older than an instant, and the oldest of more than so many; `RETIRED_MAX` at
    most. Returns how many."""
    count = int(conn.execute(select(func.count()).select_from(REFUSAL)).scalar_one())
    surplus = min(max(0, count - rows_max), RETIRED_MAX)
    oldest = select(REFUSAL.c.rid).order_by(REFUSAL.c.at_us, REFUSAL.c.rid)
    old = oldest.where(REFUSAL.c.at_us < before_us).limit(RETIRED_MAX)
    rids = {*conn.execute(old).scalars(), *conn.execute(oldest.limit(surplus)).scalars()}
    gone = conn.execute(delete(REFUSAL).where(REFUSAL.c.rid.in_(rids)))
    return gone.rowcount


def _refusal(row: dict[str, Any]) -> Refusal:
    is_canary = row["is_canary"]
    return Refusal(**{**row, "is_canary": None if is_canary is None else bool(is_canary)})
