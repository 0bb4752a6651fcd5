"""How many replicas of each pool went without having drained, and how long replicas were warm.

Counted from one look at their lives to the next, forgotten by half in a week, and published in the
fleet, from where the next controller takes it over. What went while no controller looked counts
for nothing: nobody knows whether it was lost.
"""

from collections.abc import Mapping
from typing import NamedTuple

from workers.controller.fleet_publisher import Fleet
from workers.controller.lifetimes import UNSEEN_US, Life

HALF_LIFE_S = 7 * 24 * 3600


class LossCount(NamedTuple):
    lost: float = 0.0
    warm_s: float = 0.0


NONE_LOST = LossCount()


def losses_between(before: Mapping[str, Life], after: Mapping[str, Life]) -> dict[str, LossCount]:
    """By pool, from one look to the next. `before` has the lives of one that began to lead, too."""
    counts: dict[str, LossCount] = {}
    for replica, life in before.items():
        now = after.get(replica)
        lost = 0.0 if now is not None or _went_as_told(life) else 1.0
        warm_s = 0.0 if now is None else _warm_s(life, now)
        count = counts.get(life.report.pool, NONE_LOST)
        counts[life.report.pool] = LossCount(count.lost + lost, count.warm_s + warm_s)
    return counts


def _went_as_told(life: Life) -> bool:
    """It drained, never took a call, or nothing was heard of it since somebody began to look."""
    return life.answered is None or life.answered.draining


def _warm_s(before: Life, now: Life) -> float:
    ready_us = now.report.ready_us
    if ready_us is None:
        return 0.0
    warm_us = now.report.until_us - max(ready_us, before.report.until_us)
    return warm_us / 1e6 if 0 < warm_us <= UNSEEN_US else 0.0


class LostReplicas:
    """Call `note` after each look."""

    def __init__(self) -> None:
        self._counts: dict[str, LossCount] = {}
        self._at_us = 0

    def begin(self, last: Fleet | None) -> None:
        if last is not None:
            self._counts = {pool.name: LossCount(pool.lost, pool.warm_s) for pool in last.pools}
            self._at_us = last.at_ms * 1000

    def note(self, before: Mapping[str, Life], after: Mapping[str, Life], *, at_us: int) -> None:
        passed_s = max(0, at_us - self._at_us) / 1e6
        kept = 0.5 ** (passed_s / HALF_LIFE_S)
        self._at_us = at_us
        new = losses_between(before, after) if passed_s * 1e6 <= UNSEEN_US else {}
        for pool in self._counts.keys() | new.keys():
            known, more = self._counts.get(pool, NONE_LOST), new.get(pool, NONE_LOST)
            self._counts[pool] = LossCount(
                kept * known.lost + more.lost, kept * known.warm_s + more.warm_s
            )

    def of(self, pool: str) -> LossCount:
        return self._counts.get(pool, NONE_LOST)
