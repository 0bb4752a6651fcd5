"""Laws of holds and of completeness: nothing admitted is missing, nothing stays open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection

from billing import segments
from billing.checks.report import Check, judged
from billing.segments import SegmentIndex
from billing.store import audit, holds, marks, spools, usage
from billing.types import OpenedCall, decode_opened

RIDS_MAX = 500


@dataclass(frozen=True, slots=True)
class Spooled:
    """All spools: what was opened, and what became of the files."""

    opened: Mapping[str, OpenedCall]
    indexes: Sequence[SegmentIndex]


def no_stale_hold(conn: Connection, before_us: int) -> Check:
    breaks = [
        f"{row['rid']} is open since {row['admitted_us']}"
        for row in holds.admitted_before(conn, before_us, 3)
    ]
    breaks += [f"{rid} is open and booked" for rid in audit.holds_of_booked_calls(conn)]
    return judged(
        "I6 no_stale_hold",
        "no hold is open for longer than a call may take",
        breaks,
        audit.count(conn, "open_hold"),
    )


def no_dead_letter(conn: Connection) -> Check:
    found = marks.letters(conn)
    breaks = [f"{row['rid']}: {row['reason']}: {row['detail']}" for row in found]
    return judged("no_dead_letter", "every record was booked as it stood", breaks, len(found))


def read_spools(root: Path) -> Spooled:
    """Every segment still on disk, finished or not."""
    opened: dict[str, OpenedCall] = {}
    indexes = []
    for gateway in segments.gateways(root):
        for segment in segments.segments(root, gateway):
            indexes.append(segments.index(segment))
            for line in segments.read_lines(segment):
                if line.k is segments.LineKind.OPENED:
                    opened[line.r] = decode_opened(bytes(line.p))
    return Spooled(opened, indexes)


def missing_calls(conn: Connection, spooled: Spooled) -> list[OpenedCall]:
    """Calls of the spools that SQL knows neither as booked nor as open."""
    missing = []
    rids = list(spooled.opened)
    for start in range(0, len(rids), RIDS_MAX):
        batch = rids[start : start + RIDS_MAX]
        there = set(usage.latest(conn, batch)) | holds.known_open(conn, batch)
        missing += [spooled.opened[rid] for rid in batch if rid not in there]
    return missing


def nothing_missing(spooled: Spooled, missing: Sequence[OpenedCall]) -> Check:
    breaks = [
        f"{call.rid} was admitted at {call.admitted_us} by {call.gateway}, and has no usage event"
        for call in missing
    ]
    return judged(
        "I15 nothing_missing",
        "every call in a spool has one usage event, or is open",
        breaks,
        len(spooled.opened),
    )


def spools_unchanged(conn: Connection, spooled: Spooled) -> Check:
    confirmed = spools.confirmed(conn)
    breaks = []
    for index in spooled.indexes:
        row = confirmed.get((index.segment.gateway, index.segment.seq))
        if row and row["sha"] != bytes.fromhex(index.sha256):
            breaks.append(f"{index.segment.path} differs from what was confirmed")
    return judged(
        "spools_unchanged",
        "a confirmed spool segment is what it was",
        breaks,
        len(confirmed),
    )
