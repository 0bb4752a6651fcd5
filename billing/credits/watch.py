"""When an organization's credit runs low: thresholds, with one alert for each fall below.

Pure. The amount that counts is what grants in force have left. A threshold is an amount, or a
percentage of what there was when credit last came. It raises an alert when the amount is below it.
It raises the next one only after the amount was at or above it, usually by a new grant or a
correction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from billing.credits.credit import GrantBalance


class ThresholdUnit(StrEnum):
    NANOUSD = "nanousd"
    PERCENT = "percent"


class Threshold(NamedTuple):
    unit: ThresholdUnit
    value: int

    def limit_nanousd(self, granted_nanousd: int) -> int:
        return (
            self.value
            if self.unit is ThresholdUnit.NANOUSD
            else granted_nanousd * self.value // 100
        )


@dataclass(frozen=True, slots=True)
class Watch:
    """The watch of one organization as it was last looked at. `granted_nanousd` is the amount after
    it last rose, and percentages are of that. `below` has the thresholds that raised their alert.
    """

    org: str
    thresholds: frozenset[Threshold]
    granted_nanousd: int
    left_nanousd: int
    below: frozenset[Threshold] = frozenset()

    def looked(self, before_nanousd: int, after_nanousd: int) -> tuple[Watch, list[Threshold]]:
        """The watch after the amount went from one value to another, and the thresholds that raise
        an alert, highest first. Credit that came since the last look is in both values."""
        has_come = before_nanousd > self.left_nanousd
        granted = before_nanousd if has_come else self.granted_nanousd
        below_before = {each for each in self.below if before_nanousd < each.limit_nanousd(granted)}
        low = {each for each in self.thresholds if after_nanousd < each.limit_nanousd(granted)}
        watch = replace(
            self, granted_nanousd=granted, left_nanousd=after_nanousd, below=frozenset(low)
        )
        return watch, sorted(
            low - below_before, key=lambda each: (-each.limit_nanousd(granted), each)
        )


def left_in_force(held: Iterable[GrantBalance], at_us: int) -> int:
    """The nano-USD that grants in force have left, whatever their models."""
    return sum(rest for grant, rest in held if grant.is_in_force(at_us))
