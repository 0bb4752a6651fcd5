"""Usage by the hour and by the day: the amounts that a batch of postings adds to each sum.

Pure. A call counts in the UTC hour in which its first record ended, with the amounts of its best
record. A better record takes the former one out of that hour's sums and puts itself in. So the sums
of an hour are always those of the best records of its calls, and no call changes its hour. A day is
the sum of its hours, moved in the same transaction by the same amounts. So is the day of an
organization. It knows neither projects, keys nor pools, so a question about all organizations reads
few rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

from billing.ledger.posting import Posting
from billing.prices.rating import CHARGE_PARTS
from billing.types import COUNTS as USED

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
DIMENSIONS = ("org", "project", "key", "model", "tier", "batch", "pool", "status", "month")
COUNTS = (*USED, *CHARGE_PARTS, "amount_nanousd", "cost_nanousd")
ORG_DIMENSIONS = ("org", "model", "tier", "batch", "status")
HOUR_CELL = ("hour_us", *DIMENSIONS)
DAY_CELL = ("day_us", *DIMENSIONS)
ORG_DAY_CELL = ("day_us", *ORG_DIMENSIONS)
SUMMED = ("requests", *COUNTS)

Cell = tuple[Any, ...]
"""One row's key: the values of HOUR_CELL, DAY_CELL or ORG_DAY_CELL."""
Added = dict[Cell, tuple[int, ...]]
"""By cell what is to be added to SUMMED."""
_dimensions = itemgetter(*DIMENSIONS)
_org_day = itemgetter(*map(DAY_CELL.index, ORG_DAY_CELL))
_counts = itemgetter(*COUNTS)


class CountedCall(NamedTuple):
    """A call as it counts now: its hour, which stays, and the columns of its best record."""

    hour_us: int
    usage: Mapping[str, Any]


def hour_of(at_us: int) -> int:
    """The first instant of the UTC hour an instant lies in."""
    return at_us - at_us % HOUR_US


def added(postings: Iterable[Posting], standing: Mapping[str, CountedCall]) -> Added:
    """The amounts that a batch adds to the hours. `standing` has what its calls counted before."""
    now = dict(standing)
    rows: dict[Cell, list[tuple[int, ...]]] = {}
    for posting in postings:
        usage = posting.usage
        rid = usage["rid"]
        before = now.get(rid)
        hour_us = before.hour_us if before else hour_of(usage["ended_us"])
        if before:
            subtracted = (-1, *(-count for count in _counts(before.usage)))
            rows.setdefault((hour_us, *_dimensions(before.usage)), []).append(subtracted)
        rows.setdefault((hour_us, *_dimensions(usage)), []).append((1, *_counts(usage)))
        now[rid] = CountedCall(hour_us, usage)
    return _summed(rows)


def by_day(hours: Added) -> Added:
    """The amounts that are added to hours, summed by day."""
    rows: dict[Cell, list[tuple[int, ...]]] = {}
    for (hour_us, *dimensions), counts in hours.items():
        rows.setdefault((hour_us - hour_us % DAY_US, *dimensions), []).append(counts)
    return _summed(rows)


def by_org_day(days: Added) -> Added:
    """The amounts that are added to days, summed by organization."""
    rows: dict[Cell, list[tuple[int, ...]]] = {}
    for cell, counts in days.items():
        rows.setdefault(_org_day(cell), []).append(counts)
    return _summed(rows)


def _summed(rows: Mapping[Cell, list[tuple[int, ...]]]) -> Added:
    """Amounts in the order of cells, so that writers lock the cells in one order. A cell to which
    nothing is added is left out."""
    summed = ((cell, _sum(rows[cell])) for cell in sorted(rows))
    return {cell: counts for cell, counts in summed if any(counts)}


def _sum(counts: list[tuple[int, ...]]) -> tuple[int, ...]:
    return counts[0] if len(counts) == 1 else tuple(map(sum, zip(*counts, strict=True)))
