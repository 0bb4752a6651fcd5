"""Laws of holds and dead letters: nothing stays open, everything was booked as it stood."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection

from billing.ledger import audit
from billing.ledger.report import Check, Outcome, judged
from billing.recovery import holds
from billing.writer import letters


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
    """Find dead letters. A letter that was booked after all, or judged by a person, is counted and
    breaks nothing."""
    counts = letters.counts(conn)
    breaks = [
        f"{row['id']}: {row['rid']}: {row['reason']}: {row['detail']}"
        for row in letters.listed(conn, resolved_too=False, limit=1)
    ]
    detail = f"{counts.get(letters.JUDGED, 0)} judged, {counts.get(letters.BOOKED, 0)} booked later"
    check = judged(
        "no_dead_letter",
        "every record was booked as it stood, or later, or a person has judged it",
        breaks,
        sum(counts.values()),
    )
    return replace(check, detail=detail) if counts and check.outcome is Outcome.HOLDS else check
