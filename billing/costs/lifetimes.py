"""What the life of a replica costs us, from reports of how long it has lived.

Pure. A report says all of a life so far: when it began, when it was warm, until when it is known to
have lived, and how much of that it computed. Reports are kept once by (replica, until). Between two
neighbours lies a stretch of life. A stretch is billed at the price of the later report, to the hour
in which it ends. So the bill is a function of the set of reports. A report may be repeated, late,
or lost and reported anew: no second is lost and none counts twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Annotated, Literal, NamedTuple

import msgspec

from billing.usage.rollup import hour_of

MICROSECONDS = 1_000_000
MONEY_MAX = 2**60

Instant = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]
"""Epoch microseconds, or so many of them."""


class LifeReport(msgspec.Struct, frozen=True, kw_only=True):
    """All of a replica's life that is known at `until_us`. `ready_us` is None until the replica is
    warm."""

    v: Literal[1] = 1
    replica: str
    pool: str
    model: str
    nanousd_per_s: Annotated[int, msgspec.Meta(ge=0, lt=2**53)]
    started_us: Instant
    until_us: Instant
    ready_us: Instant | None = None
    busy_us: Instant = 0
    ended: bool = False


class Bill(NamedTuple):
    """The cost of stretches of life, in three parts: starting, computing, idling."""

    cold_start_nanousd: int = 0
    busy_nanousd: int = 0
    idle_nanousd: int = 0
    life_us: int = 0
    cold_start_us: int = 0
    busy_us: int = 0

    @property
    def nanousd(self) -> int:
        return self.cold_start_nanousd + self.busy_nanousd + self.idle_nanousd

    def plus(self, other: Bill) -> Bill:
        return Bill(*(a + b for a, b in zip(self, other, strict=True)))

    def minus(self, other: Bill) -> Bill:
        return Bill(*(a - b for a, b in zip(self, other, strict=True)))


class Cell(NamedTuple):
    """The key by which bills are summed."""

    hour_us: int
    pool: str
    model: str


_DECODER = msgspec.json.Decoder(LifeReport)


def decode_report(data: bytes) -> LifeReport:
    """Raises msgspec.ValidationError on another shape or an unknown version."""
    report = _DECODER.decode(data)
    life_us = report.until_us - report.started_us
    if life_us < 0:
        raise msgspec.ValidationError("the life ends before it began")
    if life_us * report.nanousd_per_s >= MONEY_MAX * MICROSECONDS:
        raise msgspec.ValidationError("the life costs more than can be booked")
    return report


def stretch(before: LifeReport | None, report: LifeReport) -> Bill:
    """The cost of a life between two reports that follow each other, or up to the first one.

    Money is that of all time up to the end less that of all time up to the beginning, each rounded
    down. So at one price the sum is the same wherever the life is cut, to the nano-dollar. The
    replica says how long it computed since. The rest of the stretch it idled.
    """
    begun_us = report.started_us if before is None else before.until_us
    ended_us = max(report.until_us, begun_us)
    warm_us = ended_us if report.ready_us is None else min(max(report.ready_us, begun_us), ended_us)
    busy_before_us = 0 if before is None else _computed_us(before)
    busy_us = _computed_us(report)
    price = report.nanousd_per_s
    whole = _between(begun_us, ended_us, price)
    cold_start = _between(begun_us, warm_us, price)
    busy = _between(busy_before_us, busy_us, price)
    return Bill(
        cold_start,
        busy,
        whole - cold_start - busy,
        ended_us - begun_us,
        warm_us - begun_us,
        busy_us - busy_before_us,
    )


def bills(reports: Sequence[LifeReport], before: LifeReport | None = None) -> dict[Cell, Bill]:
    """The bills of one replica's reports, which come by `until_us`. `before` is the report before
    them."""
    by_cell: dict[Cell, Bill] = {}
    for former, report in pairwise((before, *reports)):
        assert report is not None, "only what comes before the first may be absent"
        cell = Cell(hour_of(report.until_us), report.pool, report.model)
        by_cell[cell] = by_cell.get(cell, Bill()).plus(stretch(former, report))
    return by_cell


def added(
    before: Sequence[LifeReport], new: Iterable[LifeReport]
) -> tuple[list[LifeReport], dict[Cell, Bill]]:
    """The reports of `new` that are not on record, and the bills that they change. `before` are the
    replica's reports by `until_us`, from the last one before any new one on. An instant is reported
    once."""
    there = {report.until_us for report in before}
    fresh: dict[int, LifeReport] = {}
    for report in new:
        if report.until_us not in there:
            fresh.setdefault(report.until_us, report)
    merged = sorted((*before, *fresh.values()), key=lambda report: report.until_us)
    changed = bills(merged)
    for cell, bill in bills(before).items():
        changed[cell] = changed.get(cell, Bill()).minus(bill)
    return list(fresh.values()), {cell: bill for cell, bill in changed.items() if any(bill)}


def _computed_us(report: LifeReport) -> int:
    """How long a replica computed: never longer than it was warm."""
    if report.ready_us is None:
        return 0
    return max(0, min(report.busy_us, report.until_us - report.ready_us))


def _between(from_us: int, to_us: int, nanousd_per_s: int) -> int:
    return to_us * nanousd_per_s // MICROSECONDS - from_us * nanousd_per_s // MICROSECONDS
