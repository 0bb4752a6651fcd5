"""Usage by the hour: what a batch of postings adds to which sums.

Pure. A call counts in the UTC hour in which its first record ended, with what its best record
says: a better record takes the former one out of that hour's sums and puts itself in. So the sums
over an hour are always the sums over the best records of its calls, and no call changes its hour.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

from billing.posting import Posting

HOUR_US = 3_600_000_000
DIMENSIONS = ("org", "project", "key", "model", "tier", "batch", "pool", "status", "month")
COUNTS = (
    "input",
    "cached_input",
    "output",
    "amount_nanousd",
    "input_nanousd",
    "cached_input_nanousd",
    "output_nanousd",
    "request_nanousd",
)
CELL = ("hour_us", *DIMENSIONS)
SUMMED = ("requests", *COUNTS)

Cell = tuple[Any, ...]
"""One row's key: the values of CELL."""
_dimensions = itemgetter(*DIMENSIONS)
_counts = itemgetter(*COUNTS)


class Standing(NamedTuple):
    """What counts of a call now: its hour for good, and the columns of its best record."""

    hour_us: int
    usage: Mapping[str, Any]


def hour_of(at_us: int) -> int:
    """The first instant of the UTC hour an instant lies in."""
    return at_us - at_us % HOUR_US


def added(
    postings: Iterable[Posting], standing: Mapping[str, Standing]
) -> dict[Cell, tuple[int, ...]]:
    """By cell what is to be added to SUMMED; `standing` is what calls counted before."""
    now = dict(standing)
    cells: dict[Cell, list[int]] = {}
    for made in postings:
        rid = made.usage["rid"]
        before = now.get(rid)
        hour_us = before.hour_us if before else hour_of(made.usage["ended_us"])
        if before:
            _add(cells, hour_us, before.usage, -1)
        _add(cells, hour_us, made.usage, 1)
        now[rid] = Standing(hour_us, made.usage)
    return {cell: tuple(counts) for cell, counts in sorted(cells.items()) if any(counts)}


def _add(cells: dict[Cell, list[int]], hour_us: int, usage: Mapping[str, Any], sign: int) -> None:
    cell = (hour_us, *_dimensions(usage))
    counts = cells.get(cell)
    if counts is None:
        counts = cells[cell] = [0] * len(SUMMED)
    counts[0] += sign
    for place, count in enumerate(_counts(usage), 1):
        counts[place] += sign * count
