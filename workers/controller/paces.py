"""How fast the replicas of each pool are, and how many calls they have begun, followed from their
own totals from one round to the next.

A replica that appears counts from its first look on: a new leader does not take its whole past for
a burst.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from workers.autoscaling.demand import BUSY_LEAST_S, IDLE, UNMEASURED, Pace, Worked, learned
from workers.autoscaling.keep_alive import (
    NO_GAPS,
    Gaps,
    Quiet,
    after_look,
    dense,
)
from workers.controller.fleet_publisher import Fleet
from workers.controller.replica_api import ReplicaStats


@dataclass(slots=True)
class _Followed:
    pace: Pace = UNMEASURED
    quiet: Quiet = field(default_factory=Quiet)
    begun: int = 0
    worked: Worked = IDLE
    seen: Mapping[str, ReplicaStats] = field(default_factory=dict)


class Paces:
    """Call `note` once a round for each pool."""

    def __init__(self) -> None:
        self._pools: dict[str, _Followed] = {}

    def begin(self, last: Fleet | None) -> None:
        """Start leading with what an earlier controller measured."""
        pools = () if last is None else last.pools
        self._pools = {
            pool.name: _Followed(pool.pace or UNMEASURED, Quiet(dense(pool.gaps))) for pool in pools
        }

    def note(self, pool: str, replica_stats: Mapping[str, ReplicaStats]) -> None:
        followed = self._pools.setdefault(pool, _Followed())
        steps = [
            _worked(followed.seen[name], stats)
            for name, stats in replica_stats.items()
            if name in followed.seen
        ]
        followed.seen = {
            **{n: s for n, s in followed.seen.items() if n in replica_stats},
            **replica_stats,
        }
        followed.begun += sum(step.calls for step in steps)
        followed.worked = _sum((followed.worked, *steps))
        if followed.worked.busy_s >= BUSY_LEAST_S:
            followed.pace = learned(followed.pace, followed.worked)
            followed.worked = IDLE

    def note_load(self, pool: str, *, is_busy: bool, at_ms: int) -> None:
        """After `note`: whether calls of the pool are open, for the gaps between them."""
        followed = self._pools.setdefault(pool, _Followed())
        followed.quiet = after_look(
            followed.quiet, at_ms=at_ms, is_busy=is_busy, begun=followed.begun
        )

    def gaps(self, pool: str) -> Gaps:
        return self._pools[pool].quiet.gaps if pool in self._pools else NO_GAPS

    def pace(self, pool: str) -> Pace:
        return self._pools[pool].pace if pool in self._pools else UNMEASURED

    def begun(self, pool: str) -> int:
        return self._pools[pool].begun if pool in self._pools else 0


def _worked(before: ReplicaStats, now: ReplicaStats) -> Worked:
    return Worked(
        calls=max(0, now.requests_total - before.requests_total),
        tokens=max(0, _tokens(now) - _tokens(before)),
        busy_s=max(0, now.busy_us_total - before.busy_us_total) / 1e6,
    )


def _tokens(stats: ReplicaStats) -> int:
    return stats.tokens_out_total + stats.tokens_prefilled_total


def _sum(steps: Iterable[Worked]) -> Worked:
    steps = list(steps)
    return Worked(
        sum(step.calls for step in steps),
        sum(step.tokens for step in steps),
        sum(step.busy_s for step in steps),
    )
