"""Starts the ledger process before its database is there: it tries again, and logs each failure.

Only an outage is waited out. A database that answers and has no tables needs a migration, and
waiting does not help.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable

from sqlalchemy.exc import InterfaceError, OperationalError

from billing.db.engine import OUTAGE

log = logging.getLogger("sluice.ledger")

LONGER_MAX = 16
"""Pauses double up to so many times the first one."""


def once_sql_is_there(
    work: Callable[[], object], *, pause_s: float, sleep: Callable[[float], None]
) -> None:
    """Do `work` as soon as the database answers. Raises every error that is no outage."""
    waits_s = pause_s
    while True:
        try:
            work()
        except OUTAGE as error:
            if _has_no_tables(error):
                raise
            why = _first_line(error)
            log.warning("the ledger waits for SQL, asks again in %g s: %s", waits_s, why)
        else:
            return
        sleep(waits_s)
        waits_s = min(2 * waits_s, LONGER_MAX * pause_s)


def _has_no_tables(error: OperationalError | InterfaceError) -> bool:
    """Whether an error means that the tables are missing. SQLite uses one name for a wrong
    statement and for an outage."""
    wrong = sqlite3.SQLITE_ERROR
    return getattr(error.orig, "sqlite_errorcode", None) == wrong


def _first_line(error: OperationalError | InterfaceError) -> str:
    return str(error.orig or error).partition("\n")[0]
