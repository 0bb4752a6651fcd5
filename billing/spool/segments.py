"""The files of a spool: `<root>/<gateway>/<seq>.log`, and beside one `<seq>.done` once the ledger
has every call in it. Reads the files that a crash left. Knows nothing of Redis and SQL. Law:
whatever byte a segment ends at, at most its torn last line is lost."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

from billing.limits.types import Booked
from billing.types import UsageSource, decode_settled

RIDS_AT_ONCE = 500

BookedOf = Callable[[Sequence[str]], Awaitable[Mapping[str, Booked]]]
"""Which of these request ids have a usage event in SQL, and what it says. At most KNOWN_BATCH."""


class SpoolLineKind(StrEnum):
    OPENED = "opened"
    CHECKPOINT = "checkpoint"
    CLOSED = "closed"


class SpoolLine(msgspec.Struct, frozen=True):
    """One line: kind, request id, payload (OpenedCall, UsageCheckpoint or SettledCall)."""

    k: SpoolLineKind
    r: str
    p: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Segment:
    gateway: str
    seq: int
    path: Path

    @property
    def done_path(self) -> Path:
        return self.path.with_suffix(".done")


@dataclass(frozen=True, slots=True)
class SegmentIndex:
    """The index of a segment: distinct request ids in order of appearance, and its digest."""

    segment: Segment
    opened: tuple[str, ...]
    closed: tuple[str, ...]
    size_bytes: int
    sha256: str


def gateways(root: Path) -> list[str]:
    """Every gateway that ever wrote below `root`."""
    return sorted(path.name for path in root.iterdir() if path.is_dir()) if root.is_dir() else []


def segments(root: Path, gateway: str) -> list[Segment]:
    """All segments of a gateway, oldest first. The last one may still be written to."""
    paths = (root / gateway).glob("*.log")
    logs = [Segment(gateway, int(path.stem), path) for path in paths if path.stem.isdecimal()]
    return sorted(logs, key=lambda segment: segment.seq)


def sealed(root: Path, gateway: str) -> list[Segment]:
    """Segments that no process writes to any more and that the ledger has not confirmed yet."""
    return [segment for segment in segments(root, gateway)[:-1] if not is_done(segment)]


def read_lines(segment: Segment) -> Iterator[SpoolLine]:
    """Every whole line. A torn or damaged one is skipped."""
    for data in segment.path.read_bytes().split(b"\n"):
        try:
            yield _LINE.decode(data)
        except msgspec.DecodeError:
            continue


def index(segment: Segment) -> SegmentIndex:
    opened: dict[str, None] = {}
    closed: dict[str, None] = {}
    for line in read_lines(segment):
        if line.k is SpoolLineKind.OPENED:
            opened[line.r] = None
        elif line.k is SpoolLineKind.CLOSED:
            closed[line.r] = None
    data = segment.path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    return SegmentIndex(segment, tuple(opened), tuple(closed), len(data), digest)


async def in_ledger(segment: Segment, known: BookedOf) -> bool:
    """Whether SQL has an event for every call in the segment, and an exact one where it ended."""
    calls = await asyncio.to_thread(_needed, segment)
    rids = list(calls)
    for start in range(0, len(rids), RIDS_AT_ONCE):
        batch = rids[start : start + RIDS_AT_ONCE]
        booked = await known(batch)
        if not all(_covers(booked.get(rid), calls[rid]) for rid in batch):
            return False
    return True


def mark_done(segment: Segment) -> None:
    """Promise that the ledger has this segment. It is not replayed again and may be removed."""
    segment.done_path.touch()


def is_done(segment: Segment) -> bool:
    return segment.done_path.exists()


def remove_done(root: Path, gateway: str, *, before_s: float) -> list[Segment]:
    """Remove confirmed segments last written before an instant (epoch seconds)."""
    removed = []
    for segment in segments(root, gateway):
        if is_done(segment) and segment.path.stat().st_mtime < before_s:
            segment.path.unlink()
            segment.done_path.unlink()
            removed.append(segment)
    return removed


def segment_path(root: Path, gateway: str, seq: int) -> Path:
    return root / gateway / f"{seq:08d}.log"


def unconfirmed_bytes(root: Path, gateway: str) -> int:
    """The size of the segments that the ledger has yet to take. Confirmed segments are only kept
    for a while."""
    open_ones = (s for s in segments(root, gateway) if not is_done(s))
    return sum(_size_bytes(segment.path) for segment in open_ones)


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # removed by the ledger meanwhile
        return 0


def _needed(segment: Segment) -> dict[str, bool]:
    """Every request id in the segment, and whether its exact end stands there."""
    rids: dict[str, bool] = {}
    for line in read_lines(segment):
        exact = line.k is SpoolLineKind.CLOSED and _is_exact(line)
        rids[line.r] = rids.get(line.r, False) or exact
    return rids


_LINE = msgspec.json.Decoder(SpoolLine)


def _is_exact(line: SpoolLine) -> bool:
    return decode_settled(bytes(line.p)).source is UsageSource.EXACT


def _covers(booked: Booked | None, exact: bool) -> bool:
    return booked is not None and (not exact or booked.source is UsageSource.EXACT)
