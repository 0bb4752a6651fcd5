"""Statements on providers' bills, and on the attempts that they are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Integer, func, insert, literal_column, select

from billing.bills.bill import DAY_US, BillDays, BookedUsage, Cell, day_of
from billing.bills.tables import ProviderBillLineRow, ProviderBillRow
from billing.db.columns import table_of
from billing.db.in_list import in_list
from billing.types import COUNTS
from billing.usage.store import ATTEMPT

BILL = table_of(ProviderBillRow)
LINE = table_of(ProviderBillLineRow)
CLASSES = tuple(name for name in COUNTS if name in ATTEMPT.c)
"""Those that attempts have."""


def booked(conn: Connection, models: Mapping[str, str], span: BillDays) -> dict[Cell, BookedUsage]:
    """What attempts of these pools bought that began on these days, along an index."""
    if not models:
        return {}
    width: ColumnElement[int] = literal_column(str(DAY_US), Integer)
    day_us = ATTEMPT.c.started_us - ATTEMPT.c.started_us % width
    sums = [func.sum(ATTEMPT.c[name]) for name in ("bought_nanousd", *CLASSES)]
    statement = (
        select(day_us, ATTEMPT.c.pool, *sums)
        .where(ATTEMPT.c.bought_nanousd != literal_column("0", Integer))
        .where(ATTEMPT.c.started_us >= span.start_us, ATTEMPT.c.started_us < span.end_us)
        .where(in_list(conn, ATTEMPT.c.pool, sorted(models)))
        .group_by(day_us, ATTEMPT.c.pool)
    )
    cells: dict[Cell, BookedUsage] = {}
    for at_us, pool, amount, *counts in conn.execute(statement):
        cell = day_of(int(at_us)), models[pool]
        before = cells.get(cell, BookedUsage())
        added = {
            name: before.counts.get(name, 0) + int(count)
            for name, count in zip(CLASSES, counts, strict=True)
        }
        cells[cell] = BookedUsage(before.nanousd + int(amount), added)
    return cells


def posted(conn: Connection, provider: str, span: BillDays) -> dict[Cell, int]:
    """What earlier bills have posted for these days."""
    variance = func.sum(LINE.c.variance_nanousd)
    statement = (
        select(LINE.c.day, LINE.c.model, variance)
        .where(LINE.c.provider == provider, LINE.c.day >= span.first, LINE.c.day <= span.last)
        .group_by(LINE.c.day, LINE.c.model)
    )
    return {(day, model): int(amount) for day, model, amount in conn.execute(statement)}


def insert_bill(
    conn: Connection, bill_row: Mapping[str, Any], line_rows: Sequence[Mapping[str, Any]]
) -> None:
    conn.execute(insert(BILL), [dict(bill_row)])
    conn.execute(insert(LINE), [dict(row) for row in line_rows])


def bill(conn: Connection, provider: str, digest: str) -> Mapping[Any, Any] | None:
    statement = select(BILL).where(BILL.c.provider == provider, BILL.c.sha256 == digest)
    return conn.execute(statement).mappings().first()


def lines(conn: Connection, provider: str, digest: str) -> Sequence[Mapping[Any, Any]]:
    """By day and model."""
    statement = select(LINE).where(LINE.c.provider == provider, LINE.c.sha256 == digest)
    return conn.execute(statement.order_by(LINE.c.day, LINE.c.model)).mappings().all()


def digests(conn: Connection, provider: str) -> Sequence[str]:
    """Of all bills, the newest first."""
    newest = BILL.c.posted_us.desc(), BILL.c.sha256
    statement = select(BILL.c.sha256).where(BILL.c.provider == provider).order_by(*newest)
    return list(conn.execute(statement).scalars())


def variances(conn: Connection) -> dict[str, int]:
    """The sum of all variances of each provider."""
    variance = func.sum(LINE.c.variance_nanousd)
    statement = select(LINE.c.provider, variance).group_by(LINE.c.provider)
    return {provider: int(amount) for provider, amount in conn.execute(statement)}


def wrong_lines(conn: Connection, limit: int) -> Sequence[Mapping[Any, Any]]:
    """Lines that do not say what is booked, posted and billed together."""
    variance = LINE.c.billed_nanousd - LINE.c.booked_nanousd - LINE.c.posted_nanousd
    statement = select(LINE).where(LINE.c.variance_nanousd != variance).limit(limit)
    return conn.execute(statement).mappings().all()
