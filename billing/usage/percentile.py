"""Percentiles of the nearest rank: a figure that some call really had."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

MEDIAN, TAIL = 0.50, 0.95


def percentile(values: Sequence[int], share: float) -> int:
    """The smallest value that at least this share of the values does not exceed."""
    return sorted(values)[max(0, ceil(share * len(values)) - 1)]
