"""Laws of holds and dead letters: nothing stays open, everything was booked as it stood."""

from __future__ import annotations

from sqlalchemy import Connection

from billing.checks.report import Check, judged
from billing.store import audit, holds, marks


def no_stale_hold(conn: Connection, before_us: int) -> Check:
    breaks = [
        f"{row['rid']} is open since {row['admitted_us']}"
        for row in holds.admitted_before(conn, before_us, 3)
    ]
    breaks += [f"{rid} is open and booked" for rid in audit.holds_of_booked_calls(conn)]
    return judged(
        "I6 no_stale_hold",
        "no hold is open for longer than a call may take, none of a booked call",
        breaks,
        audit.count(conn, "open_hold"),
    )


def no_dead_letter(conn: Connection) -> Check:
    found = marks.letters(conn)
    breaks = [f"{row['rid']}: {row['reason']}: {row['detail']}" for row in found]
    return judged("no_dead_letter", "every record was booked as it stood", breaks, len(found))
