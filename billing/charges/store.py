"""Statements on sums of charges, and on the place of transfers in booking order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, func, select

from billing.charges.sums import CELL, SUMMED, Cell, Sums, month_of
from billing.charges.tables import ChargeMonth, ChargeSum
from billing.db.columns import table_of
from billing.db.insert import Row, add_to, replace_in

SUM = table_of(ChargeSum)
MONTH = table_of(ChargeMonth)


def next_place(conn: Connection, now_us: int) -> int:
    """The place of a booking: now, or right behind the newest one. Bookings take turns, so a place
    is later than that of every transfer that others can see."""
    newest_us = conn.execute(select(func.max(MONTH.c.moved_us))).scalar_one()
    return max(now_us, (newest_us or 0) + 1)


def add(conn: Connection, added: Mapping[Cell, Sums], transfers: Sequence[Row]) -> None:
    """Add to the sums, and move the months to the place of these transfers, which were added."""
    add_to(conn, SUM, (*CELL, *SUMMED), [(*cell, *added[cell]) for cell in added], SUMMED)
    if not transfers:
        return
    place_us = max(row["created_us"] for row in transfers)
    months = sorted({(row["org"], month_of(row["booked_us"])) for row in transfers})
    columns = ("org", "service_start_us", "moved_us")
    replace_in(conn, MONTH, columns, [(*month, place_us) for month in months], ("moved_us",))


def orgs(conn: Connection, before_us: int) -> list[str]:
    """Organizations that have charges in months that begin before an instant."""
    named = select(MONTH.c.org).where(MONTH.c.service_start_us < before_us).distinct()
    return sorted(conn.execute(named).scalars())


def months(conn: Connection, org: str, before_us: int) -> dict[int, int]:
    """By the start of a month before an instant the newest place of its transfers."""
    statement = select(MONTH.c.service_start_us, MONTH.c.moved_us).where(
        MONTH.c.org == org, MONTH.c.service_start_us < before_us
    )
    return {start_us: moved_us for start_us, moved_us in conn.execute(statement)}


def sums_of(conn: Connection, org: str, month_us: int) -> dict[Cell, Sums]:
    """The sums of one month of an organization, by cell."""
    statement = select(*(SUM.c[name] for name in (*CELL, *SUMMED))).where(
        SUM.c.org == org, SUM.c.service_start_us == month_us
    )
    by_cell: dict[Cell, Sums] = {}
    for row in conn.execute(statement):
        values: tuple[Any, ...] = tuple(row)
        by_cell[values[: len(CELL)]] = (values[-3], values[-2], values[-1])
    return by_cell
