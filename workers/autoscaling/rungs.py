"""How long an idle pool stays on each rung on its way down, warm and then asleep. Pure.

A warm replica costs `warm_per_s`, a sleeping one less, a cold one nothing. To come back costs a
wake from sleep and a start from cold. The cost of three rungs is that of two rentals beside each
other: being warm is rented at what sleep saves, against a wake; being there at all is rented at
what sleep costs, against what a start costs beyond a wake. Each is left as `keep_alive` says, by
the gaps of the pool. So both together cost at most 1 + 1 / TRUST times the best of hindsight (the
lower envelope of Irani, Shukla and Gupta 2003, "Online strategies for dynamic power management in
systems with multiple power-saving states"). Where sleep is never the cheapest rung there is none.
"""

from dataclasses import dataclass
from typing import NamedTuple

from workers.autoscaling.keep_alive import Gaps, keep_s, start_worth_s


@dataclass(frozen=True, slots=True)
class RungCosts:
    """What a replica costs by the second, and the time of whoever waits, in one currency.
    `asleep_per_s` None: the pool does not sleep by itself."""

    start_s: float
    wake_s: float
    warm_per_s: float
    asleep_per_s: float | None
    wait_per_s: float

    @property
    def wake_worth_s(self) -> float | None:
        """For how long what sleep saves is as much as a wake costs."""
        saved_per_s = self.warm_per_s - (self.asleep_per_s or 0.0)
        return None if saved_per_s <= 0 else self.wake_s * self._coming_per_s / saved_per_s

    @property
    def stay_worth_s(self) -> float | None:
        """For how long sleep costs as much as a start does beyond a wake."""
        if not self.asleep_per_s:
            return None
        return max(0.0, self.start_s - self.wake_s) * self._coming_per_s / self.asleep_per_s

    @property
    def _coming_per_s(self) -> float:
        return self.warm_per_s + self.wait_per_s


class Stay(NamedTuple):
    """None: nobody knows, so the time that the operator set holds."""

    warm_s: float | None
    asleep_s: float | None = None


def stay(gaps: Gaps, costs: RungCosts) -> Stay:
    """How long an idle pool stays warm, and how long it sleeps then."""
    wake_s, stay_s = costs.wake_worth_s, costs.stay_worth_s
    sleeps = costs.asleep_per_s is not None
    never = stay_s is not None and (wake_s is None or wake_s >= stay_s)
    if not sleeps or never:
        worth_s = start_worth_s(costs.start_s, costs.warm_per_s, costs.wait_per_s)
        return Stay(keep_s(gaps, worth_s), 0.0 if never else None)
    warm_s, there_s = keep_s(gaps, wake_s), keep_s(gaps, stay_s)
    if there_s is None:
        return Stay(warm_s)
    return Stay(warm_s, max(0.0, there_s - (warm_s or 0.0)))
