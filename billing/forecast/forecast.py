"""What a month may come to by its end, from the days before.

Pure. The days that are left are taken to be like the whole days before: their sum is expected to be
so many times the mean, and lies four times of five within an interval that widens with the spread
of those days and with how few they are. A forecast is statistics: it rounds floats, and no money is
booked by it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import NamedTuple

Z_OF_80_PERCENT = 1.2816
"""So many standard deviations around the mean hold four fifths of a normal distribution."""


class Forecast(NamedTuple):
    """In nano-USD; four times of five it comes between `low` and `high`."""

    low: int
    expected: int
    high: int


def to_come(days_nanousd: Sequence[int], days_left: float) -> Forecast:
    """What days that are left come to. Of a single day nothing is known but itself: it may come
    again, or not."""
    if not days_nanousd or days_left <= 0:
        return Forecast(0, 0, 0)
    mean = fmean(days_nanousd)
    spread = stdev(days_nanousd) if len(days_nanousd) > 1 else mean
    of_sum = spread * math.sqrt(days_left + days_left**2 / len(days_nanousd))
    expected, off = mean * days_left, Z_OF_80_PERCENT * of_sum
    return Forecast(round(max(expected - off, 0)), round(max(expected, 0)), round(expected + off))
