"""What is intended for each pool, remembered from one round to the next.

Joins what is seen of a pool's applications with the pure decisions on them. All of it may be lost:
a missing memory is taken over from what the cluster holds.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from routing.types import Tier
from workers.autoscaling.demand import NO_DEMAND, Demand
from workers.autoscaling.generations import (
    Generation,
    Succession,
    SuccessionDecision,
    succeed,
)
from workers.autoscaling.types import WAKE_GUESS_MS, Knobs, Phase, PoolMemory
from workers.catalog import Pool
from workers.controller.fleet_publisher import Fleet
from workers.controller.sighting import Sighting
from workers.settings import ControllerSettings

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PoolApps:
    """One pool with the application that it wants, and its former ones that are still there."""

    pool: Pool
    desired: str
    older: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (self.desired, *self.older)


class Intentions:
    """The memory of each application by name, and the generation that serves each pool."""

    def __init__(self, knobs: ControllerSettings) -> None:
        self._knobs = knobs
        self._memories: dict[str, PoolMemory] = {}
        self._successions: dict[str, Succession] = {}
        self._told: dict[str, tuple[object, ...]] = {}
        self._measured_s: dict[str, float] = {}
        self._wake_s: dict[str, float] = {}

    def begin(self, last: Fleet | None) -> None:
        """Start leading: forget the intentions, and take over the measured times."""
        self._memories, self._successions, self._told = {}, {}, {}
        if last is not None:
            self._measured_s |= {p.name: p.cold_start_s for p in last.pools}
            self._wake_s |= {p.name: p.wake_s for p in last.pools if p.wake_s is not None}

    def is_cold(self, pool: str) -> bool:
        """Whether a waiting caller would start the pool now."""
        serving = self._successions.get(pool, Succession()).serving
        memory = self._memories.get(serving or "")
        return memory is None or (memory.target == 0 and memory.quarantined_until_ms is None)

    def needs_app(self, app: str) -> bool:
        """Whether replicas of the application are to run now."""
        memory = self._memories.get(app)
        return memory is not None and memory.target > 0 and memory.quarantined_until_ms is None

    def cold_start_s(self, pool: Pool) -> float:
        """The measured time of a start, or the catalog's guess until there is one."""
        return self._measured_s.get(pool.name, pool.cold_start_s)

    def wake_s(self, pool: Pool) -> float:
        """The measured time of a replica from sleep to warm, or a guess until there is one."""
        return self._wake_s.get(pool.name, WAKE_GUESS_MS / 1000)

    def serving(self, apps: PoolApps) -> tuple[str, PoolMemory | None]:
        """The application that serves a pool, and its memory."""
        name = self._successions.get(apps.pool.name, Succession()).serving
        name = name if name in apps.names else apps.desired
        return name, self._memories.get(name)

    def note_unknown(self, apps: PoolApps) -> None:
        """Remember an application that the cluster does not have. It starts with the catalog's
        count, or with its own count from before the cluster was lost. Behind an older one it starts
        when that is decided."""
        memory = self._memories.get(apps.desired)
        serving = self._successions.get(apps.pool.name, Succession()).serving
        memory = memory or (None if apps.older else self._memories.get(serving or ""))
        if memory is None:
            target = 0 if apps.older else apps.pool.initial_replicas
            self._memories[apps.desired] = self._fresh(apps.pool, target)
            return
        self._memories[apps.desired] = replace(
            self._fresh(apps.pool, memory.target),
            failures=memory.failures,
            failure=memory.failure,
            quarantined_until_ms=memory.quarantined_until_ms,
        )

    def decide(
        self,
        apps: PoolApps,
        sightings: Mapping[str, Sighting],
        waiting: int,
        demand: Demand = NO_DEMAND,
    ) -> SuccessionDecision:
        """Decide one round of one pool."""
        pool = apps.pool
        succession, memories, decision = succeed(
            self._generation(apps, apps.desired, sightings),
            [self._generation(apps, name, sightings) for name in apps.older],
            self._successions.get(pool.name, Succession()),
            knobs_of(pool, self._knobs),
            waiting=waiting,
            demand=demand,
            patience_ms=int(self._knobs.replace_drain_s * 1000),
        )
        self._successions[pool.name] = succession
        self._memories |= memories
        self._measured_s[pool.name] = memories[decision.serving].cold_start_ms / 1000
        self._wake_s[pool.name] = memories[decision.serving].wake_ms / 1000
        self._tell(pool.name, decision)
        return decision

    def keep_only(self, all_apps: Sequence[PoolApps]) -> None:
        """Forget pools and applications that are no longer in the catalog or the cluster."""
        names = {name for apps in all_apps for name in apps.names}
        pools = {apps.pool.name for apps in all_apps}
        self._memories = {n: m for n, m in self._memories.items() if n in names}
        self._successions = {n: s for n, s in self._successions.items() if n in pools}

    def _generation(
        self, apps: PoolApps, name: str, sightings: Mapping[str, Sighting]
    ) -> Generation:
        sighting = sightings[name]
        memory = self._memories.get(name)
        if memory is None:
            target = sighting.cluster_target
            if target is None:
                target = 0 if apps.older else apps.pool.initial_replicas
            asleep = frozenset(r.id for r in sighting.view.replicas_in(Phase.SLEEPING))
            memory = self._fresh(apps.pool, max(0, target - len(asleep)))
            memory = replace(memory, asleep=asleep)
        return Generation(name, sighting.view, memory)

    def _fresh(self, pool: Pool, target: int) -> PoolMemory:
        start_ms, wake_ms = self.cold_start_s(pool) * 1000, self.wake_s(pool) * 1000
        return PoolMemory(target=target, cold_start_ms=start_ms, wake_ms=wake_ms)

    def _tell(self, pool: str, decision: SuccessionDecision) -> None:
        """Log a decision when it changes, not in every round."""
        scale = decision.scales[decision.serving]
        fails = any(s.quarantined_until_ms is not None for s in decision.scales.values())
        now = (decision.serving, scale.target, scale.reason, fails, bool(decision.detail))
        if self._told.get(pool) != now:
            text = f"{scale.target}, {scale.reason}: {scale.detail}"
            log.info("%s: %s", decision.serving, "; ".join(filter(None, (text, decision.detail))))
        self._told[pool] = now


def knobs_of(pool: Pool, settings: ControllerSettings) -> Knobs:
    targets_s = settings.ttft_s_by_tier
    return Knobs(
        min_replicas=pool.min_replicas,
        max_replicas=max(pool.max_replicas, pool.min_replicas),
        slots=pool.max_ongoing,
        idle_ms=int(pool.idle_s * 1000),
        up_delay_ms=int(settings.up_delay_s * 1000),
        settle_ms=int(settings.settle_s * 1000),
        drain_timeout_ms=int(settings.drain_timeout_s * 1000),
        start_timeout_ms=int(settings.start_timeout_s * 1000),
        start_attempts=settings.start_attempts,
        backoff_ms=int(settings.backoff_s * 1000),
        backoff_max_ms=int(settings.backoff_max_s * 1000),
        cold_start_weight=settings.cold_start_weight,
        cold_start_guess_ms=pool.cold_start_s * 1000,
        ttft_ms=int(targets_s[Tier.DEFAULT] * 1000),
        tier_ttft_ms=tuple((tier, int(target_s * 1000)) for tier, target_s in targets_s.items()),
        panic_ms=int(settings.panic_s * 1000),
        stable_ms=int(settings.stable_s * 1000),
        down_ms=int(settings.down_s * 1000),
        sleep_ms=None if pool.sleep_idle_s is None else int(pool.sleep_idle_s * 1000),
    )
