"""The instant from which the books are open: no transfer is dated before it any more.

Whoever posts holds a shared lock until its transaction ends, and whoever closes an exclusive one.
So no posting that began before a closing ends after it unseen.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, func, select

from billing.db.columns import table_of
from billing.db.engine import share_turns
from billing.db.insert import Row
from billing.ledger.tables import ClosedPeriod

CLOSED = table_of(ClosedPeriod)
CLOSING_LOCK = 0x51_75_1C_EA


class PeriodClosed(Exception):
    """The books are closed for the instant at which this would be booked."""


def open_from_us(conn: Connection) -> int:
    """It stays so until the transaction ends."""
    share_turns(conn, CLOSING_LOCK)
    return conn.execute(select(func.max(CLOSED.c.end_us))).scalar_one() or 0


def refuse_closed(transfers: Sequence[Row], open_us: int) -> None:
    """Raises PeriodClosed."""
    if min(row["created_us"] for row in transfers) < open_us:
        raise PeriodClosed("The books are closed for the time of this posting.")
