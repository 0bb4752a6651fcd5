"""The pools that lost their replicas, followed from one round to the next.

All of it stands in the published fleet, and is taken over from there. So a controller that starts
while the cluster is away knows since when, and how long earlier recoveries took.
"""

from dataclasses import dataclass, field

from workers.autoscaling.recoveries import (
    Loss,
    LostPart,
    Took,
    follow,
    ready_in_s,
    together,
    with_another,
)
from workers.controller.fleet_publisher import Fleet, PoolEntry

RAY = ""
"""In place of a pool: of the cluster itself, for pools that are cold."""


@dataclass(slots=True)
class Losses:
    """Call `note` once a round for each pool, then `ready_at_ms`."""

    took: Took = field(default_factory=dict)
    _losses: dict[str, Loss] = field(default_factory=dict)
    _had_one: set[str] = field(default_factory=set)

    def begin(self, last: Fleet | None) -> None:
        if last is None:
            return
        self.took = {which: tuple(took_s) for which, took_s in last.recoveries.items()}
        for pool in last.pools:
            if any(replica.state == "WARM" for replica in pool.replicas):
                self._had_one.add(pool.name)
            if (loss := _published(pool)) is not None:
                self._had_one.add(pool.name)
                self._losses[pool.name] = loss

    def note(
        self, pool: str, *, has_one: bool, is_wanted: bool, gone: LostPart | None, at_ms: int
    ) -> Loss | None:
        """Note one pool. `gone` is what is known to be away besides replicas. Returns the loss, if
        there is one."""
        loss = self._losses.get(pool)
        if has_one and loss is not None:
            self.took = with_another(self.took, loss, pool, at_ms)
        if has_one:
            self._had_one.add(pool)
        elif not is_wanted:
            self._had_one.discard(pool)
        lost = not has_one and pool in self._had_one
        now = follow(loss, lost=lost, gone=gone or LostPart.REPLICA, at_ms=at_ms)
        if now is None:
            self._losses.pop(pool, None)
        else:
            self._losses[pool] = now
        return now

    def ready_at_ms(self, pool: str, cold_start_s: float, at_ms: int) -> int | None:
        """When a lost pool is expected to have a replica. None where nothing is lost: then a start
        takes its usual time."""
        ray = self._losses.get(RAY)
        of_pools = {name: loss for name, loss in self._losses.items() if name != RAY}
        self._losses |= together(of_pools)
        loss = self._losses.get(pool)
        if loss is not None:
            return at_ms + _ms(ready_in_s(loss, self.took, pool, cold_start_s, at_ms))
        if ray is not None and pool not in self._had_one:
            return at_ms + _ms(ready_in_s(ray, self.took, RAY, 0.0, at_ms) + cold_start_s)
        return None


def _published(pool: PoolEntry) -> Loss | None:
    if pool.lost_since_ms is None or pool.gone is None:
        return None
    return Loss(LostPart[pool.gone.upper()], pool.lost_since_ms)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
