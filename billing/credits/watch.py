"""When an organization's credit runs low: thresholds, told once for each fall below.

Pure. What counts is what grants in force have left. A threshold is an amount, or a percentage of
what there was when credit last came. It is told when what is left is found below it, and again
only after it was found at or above it: a new grant, usually, or a correction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from billing.credits.credit import Held


class Unit(StrEnum):
    NANOUSD = "nanousd"
    PERCENT = "percent"


class Threshold(NamedTuple):
    unit: Unit
    value: int

    def limit_nanousd(self, granted_nanousd: int) -> int:
        return self.value if self.unit is Unit.NANOUSD else granted_nanousd * self.value // 100


@dataclass(frozen=True, slots=True)
class Watch:
    """Of one organization, as it was last looked at: `granted_nanousd` is what was left when it
    had last become more, of which percentages are; `below` are the thresholds that were told."""

    org: str
    thresholds: frozenset[Threshold]
    granted_nanousd: int
    left_nanousd: int
    below: frozenset[Threshold] = frozenset()

    def looked(self, before_nanousd: int, after_nanousd: int) -> tuple[Watch, list[Threshold]]:
        """What is left went from one amount to another: the watch from now on, and the thresholds
        to be told, the highest first. Credit that came since the last look is in both amounts."""
        has_come = before_nanousd > self.left_nanousd
        granted = before_nanousd if has_come else self.granted_nanousd
        told = {each for each in self.below if before_nanousd < each.limit_nanousd(granted)}
        low = {each for each in self.thresholds if after_nanousd < each.limit_nanousd(granted)}
        found = replace(
            self, granted_nanousd=granted, left_nanousd=after_nanousd, below=frozenset(low)
        )
        return found, sorted(low - told, key=lambda each: (-each.limit_nanousd(granted), each))


def left_in_force(held: Iterable[Held], at_us: int) -> int:
    """Nano-USD that grants in force have left, for whichever models."""
    return sum(left for grant, left in held if grant.is_in_force(at_us))
