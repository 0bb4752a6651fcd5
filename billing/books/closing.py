"""Closing a month: what was posted up to its end is final, and nothing is posted before it again.

A month is closed for good, with all months before it. What comes late is posted when it comes, and
the journal shows the month of its service.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, insert, select

from billing.db.columns import table_of
from billing.db.engine import Store, take_turns
from billing.db.insert import insert_new
from billing.ledger.closed import CLOSED, CLOSING_LOCK
from billing.ledger.posting import CLOCK_SKEW_MAX_US
from billing.ledger.report import Check, judged
from billing.ledger.store import TRANSFER
from billing.ledger.tables import ClosedPeriodTotal
from billing.periods import Period

TOTAL = table_of(ClosedPeriodTotal)


class PeriodNotEnded(Exception):
    """The month goes on, or ended a moment ago."""


@dataclass(frozen=True, slots=True)
class ClosedMonth:
    """`transfers` and their sum are all that the ledger had up to the end of the month."""

    period: str
    end_us: int
    closed_by: str
    closed_us: int
    transfers: int
    amount_nanousd: int


def close(store: Store, month: Period, *, by: str, now_us: int) -> ClosedMonth:
    """Again changes nothing. Raises PeriodNotEnded until the clocks of all hosts are past it."""
    if now_us < month.end_us + CLOCK_SKEW_MAX_US:
        raise PeriodNotEnded(f"{month.name} has not ended, or ended less than five minutes ago")
    with store.write() as conn:
        take_turns(conn, CLOSING_LOCK)
        if conn.execute(select(CLOSED).where(CLOSED.c.period == month.name)).first() is None:
            row = {"period": month.name, "end_us": month.end_us}
            conn.execute(insert(CLOSED), [row | {"closed_by": by, "closed_us": now_us}])
    with store.read() as conn:
        transfers, amount = _up_to(conn, month.end_us)
    with store.write() as conn:
        row = {"period": month.name, "transfers": transfers, "amount_nanousd": amount}
        insert_new(conn, TOTAL, [row])
        (closed,) = _closed(conn, month.name)
        return closed


def closed_months(store: Store) -> list[ClosedMonth]:
    with store.read() as conn:
        return _closed(conn)


def closed_periods_stay(conn: Connection) -> Check:
    """The law: the newest closed month has what it had, and with it all months before."""
    months = _closed(conn)
    breaks = []
    for month in months[-1:]:
        transfers, amount = _up_to(conn, month.end_us)
        if (transfers, amount) != (month.transfers, month.amount_nanousd):
            breaks.append(
                f"{month.period}: closed with {month.transfers} transfers of "
                f"{month.amount_nanousd}, and has {transfers} of {amount}"
            )
    return judged(
        "P3 closed_periods",
        "nothing was posted to a month, nor to one before it, after its books were closed",
        breaks,
        len(months),
    )


def _closed(conn: Connection, period: str | None = None) -> list[ClosedMonth]:
    """By month; one that is being closed is left out until it is counted."""
    statement = (
        select(CLOSED, TOTAL.c.transfers, TOTAL.c.amount_nanousd)
        .join(TOTAL, TOTAL.c.period == CLOSED.c.period)
        .order_by(CLOSED.c.period)
    )
    if period is not None:
        statement = statement.where(CLOSED.c.period == period)
    return [ClosedMonth(**row) for row in conn.execute(statement).mappings()]


def _up_to(conn: Connection, end_us: int) -> tuple[int, int]:
    columns = func.count(), func.coalesce(func.sum(TRANSFER.c.amount_nanousd), 0)
    row = conn.execute(select(*columns).where(TRANSFER.c.created_us < end_us)).one()
    return int(row[0]), int(row[1])
