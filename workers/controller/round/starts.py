"""How many starts of each pool were in each stage, and for how long, followed from one round to the
next.

All of it stands in the published fleet, and is taken over from there. So the counts go on where an
earlier controller stopped, and a start that both saw counts once.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from workers.autoscaling.stages import Stage, StageCount, counted
from workers.controller.fleet_publisher import Fleet, ReplicaEntry


@dataclass(frozen=True, slots=True)
class _Look:
    at_ms: int
    stages: Mapping[str, Stage] = field(default_factory=dict)
    counts: Mapping[Stage, StageCount] = field(default_factory=dict)


class Starts:
    """Call `note` once a round for each pool."""

    def __init__(self) -> None:
        self._looks: dict[str, _Look] = {}

    def begin(self, last: Fleet | None) -> None:
        """Start leading with what an earlier controller counted."""
        if last is not None:
            self._looks = {
                pool.name: _Look(last.at_ms, _stages(pool.replicas), pool.stages)
                for pool in last.pools
            }

    def note(
        self, pool: str, replicas: Iterable[ReplicaEntry], at_ms: int
    ) -> Mapping[Stage, StageCount]:
        """The counts so far."""
        before, now = self._looks.get(pool, _Look(at_ms)), _stages(replicas)
        step_s = max(0, at_ms - before.at_ms) / 1000
        counts = counted(before.counts, before.stages, now, step_s)
        self._looks[pool] = _Look(max(at_ms, before.at_ms), now, counts)
        return counts


def _stages(replicas: Iterable[ReplicaEntry]) -> dict[str, Stage]:
    return {each.id: each.stage for each in replicas if each.stage is not None}
