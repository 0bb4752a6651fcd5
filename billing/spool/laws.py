"""Laws that the spools prove: nothing admitted is missing, and replaying them adds nothing.

A spool is read segment by segment, each beside what SQL has of its calls.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from sqlalchemy import Connection

from billing.db.engine import Store
from billing.ledger.posting import LatestRecord, Step, step_for
from billing.ledger.report import Check, Progress, judged
from billing.recovery import holds
from billing.spool import segments
from billing.spool import store as spools
from billing.spool.segments import Segment, SpoolLineKind
from billing.types import SettledCall, decode_opened, decode_settled, encode
from billing.usage import store as usage
from billing.writer import letters

RIDS_MAX = 500


@dataclass(frozen=True, slots=True)
class Unbooked:
    """A call of a spool that SQL knows neither as booked nor as open."""

    rid: str
    org: str
    gateway: str
    admitted_us: int


@dataclass(slots=True)
class SpoolSums:
    """The sums and breaks of all spools, compared with SQL."""

    calls: int = 0
    closed: int = 0
    segments: int = 0
    unbooked: list[Unbooked] = field(default_factory=list)
    unlike: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)


def look_through(store: Store, root: Path, before_us: int, progress: Progress) -> SpoolSums:
    """Read every segment that is still on disk, finished or not. A replay that would better a
    record is a break only if the segment was confirmed, or the call ended before an instant. Else
    the record may be on its way."""
    findings = SpoolSums()
    with store.read() as conn:
        confirmed = spools.confirmed(conn)
    files = [each for name in segments.gateways(root) for each in segments.segments(root, name)]
    for number, segment in enumerate(files):
        progress("spools", number, len(files))
        row = confirmed.get((segment.gateway, segment.seq))
        if row:
            findings.segments += 1
            if row["sha"] != hashlib.sha256(segment.path.read_bytes()).digest():
                findings.changed.append(f"{segment.path} differs from what was confirmed")
        _compare(store, segment, findings, _LATER if row else before_us)
    return findings


def still_unbooked(store: Store, calls: Collection[Unbooked]) -> list[Unbooked]:
    """Those of these calls that SQL does not know now."""
    by_rid = {call.rid: call for call in calls}
    rids = list(by_rid)
    for start in range(0, len(rids), RIDS_MAX):
        batch = rids[start : start + RIDS_MAX]
        with store.read() as conn:
            booked = set(usage.latest(conn, batch))
            for rid in booked | holds.known_open(conn, batch) | letters.written_off(conn, batch):
                del by_rid[rid]
    return list(by_rid.values())


def nothing_missing(spooled: SpoolSums, missing: Collection[Unbooked]) -> Check:
    breaks = [
        f"{call.rid} was admitted at {call.admitted_us} by {call.gateway}, and has no usage event"
        for call in missing
    ]
    return judged(
        "I15 nothing_missing",
        "every call in a spool has one usage event, is open, or was written off",
        breaks,
        spooled.calls,
    )


def replay_adds_nothing(spooled: SpoolSums) -> Check:
    return judged(
        "I8 replay_adds_nothing",
        "replaying a spool changes nothing: of every call that ended, SQL has that end or a better",
        spooled.unlike,
        spooled.closed,
    )


def spools_unchanged(spooled: SpoolSums) -> Check:
    return judged(
        "spools_unchanged",
        "a confirmed spool segment is what it was",
        spooled.changed,
        spooled.segments,
    )


_LATER = 1 << 62


def _compare(store: Store, segment: Segment, findings: SpoolSums, before_us: int) -> None:
    opened: dict[str, Unbooked] = {}
    closed: dict[str, bytes] = {}
    for line in segments.read_lines(segment):
        if line.k is SpoolLineKind.OPENED:
            call = decode_opened(bytes(line.p))
            opened[line.r] = Unbooked(call.rid, call.org, call.gateway, call.admitted_us)
        elif line.k is SpoolLineKind.CLOSED:
            closed[line.r] = bytes(line.p)
    rids = list(opened.keys() | closed.keys())
    findings.calls += len(rids)
    findings.closed += len(closed)
    for start in range(0, len(rids), RIDS_MAX):
        batch = rids[start : start + RIDS_MAX]
        with store.read() as conn:
            booked = usage.latest(conn, batch)
            unknown = [rid for rid in batch if rid not in booked]
            unknown = _missing(conn, unknown)
        findings.unbooked += [opened.get(rid) or _unbooked(closed[rid]) for rid in unknown]
        findings.unlike += _bettered(batch, booked, closed, before_us)


def _missing(conn: Connection, rids: list[str]) -> list[str]:
    """Those of these calls that are neither open nor written off with a dead letter."""
    if not rids:
        return []
    elsewhere = holds.known_open(conn, rids) | letters.written_off(conn, rids)
    return [rid for rid in rids if rid not in elsewhere]


def _unbooked(payload: bytes) -> Unbooked:
    call = decode_settled(payload)
    return Unbooked(call.rid, call.org, call.gateway, call.admitted_us)


def _bettered(
    rids: list[str], booked: Mapping[str, LatestRecord], closed: Mapping[str, bytes], before_us: int
) -> list[str]:
    """The changes that a replay of these calls would make in SQL."""
    breaks = []
    for rid in rids:
        there, payload = booked.get(rid), closed.get(rid)
        if there is None or payload is None or there.payload_sha == sha256(payload).digest():
            continue
        call = decode_settled(payload)
        match _step(call, there):
            case Step.CONFLICT:
                breaks.append(f"{rid}: its spool tells another end than was booked")
            case Step.CORRECTION if call.ended_us < before_us:
                breaks.append(f"{rid}: its spool tells a better end than the one booked")
    return breaks


def _step(call: SettledCall, booked: LatestRecord) -> Step:
    """What the record would do to the ledger. The call is encoded anew, because a later version may
    write it with more fields."""
    return step_for(call, sha256(encode(call)).digest(), booked)
