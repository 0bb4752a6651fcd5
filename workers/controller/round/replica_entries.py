"""Replicas as the fleet shows them: each with its state, and where its start is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from workers.autoscaling.stages import Stage, eta_s, stage_of_start
from workers.autoscaling.types import Phase, ReplicaView
from workers.controller.fleet_publisher import ReplicaEntry
from workers.controller.nodes import NodeWatch
from workers.controller.replica_api import ReplicaStats
from workers.controller.sighting import Sighting
from workers.controller.weights import WeightsWatch


class Times(NamedTuple):
    """Of a pool: how long a start takes from cold and from sleep, and how long calls have on a node
    that leaves."""

    cold_s: float
    wake_s: float
    graceful_s: float


@dataclass(frozen=True, slots=True)
class ReplicaEntries:
    stats_of: Callable[[str], ReplicaStats | None]
    nodes: NodeWatch
    weights: WeightsWatch
    has_place: bool

    def of(
        self, sighting: Sighting, shown: Mapping[str, Phase], times: Times, at_ms: int
    ) -> tuple[ReplicaEntry, ...]:
        """A replica whose node leaves takes no new call, whatever it says itself. Serve starts
        another one in its place."""
        return tuple(
            self._entry(replica, sighting, shown[replica.id], times, at_ms)
            for replica in sighting.view.replicas
        )

    def _entry(
        self, replica: ReplicaView, sighting: Sighting, shown: Phase, times: Times, at_ms: int
    ) -> ReplicaEntry:
        details, stats = sighting.serve[replica.id], self.stats_of(replica.id)
        node = details.node_instance_id
        state = Phase.DRAINING if self.nodes.is_leaving(node) else shown
        is_woken = replica.phase is Phase.SLEEPING and shown is Phase.STARTING
        since_ms = at_ms if is_woken else replica.since_ms
        is_waking = is_woken or (stats is not None and stats.waking)
        starts = is_woken or replica.phase is Phase.STARTING
        stage = stage_of_start(
            has_process=details.pid is not None,
            is_loaded=details.state == "RUNNING",
            has_place=self.has_place,
            is_fetching=self.weights.fetch_of(replica.id) is not None,
            is_waking=is_waking,
        )
        return ReplicaEntry(
            id=replica.id,
            address=sighting.addresses.get(replica.id, ""),
            state=state,
            node=node or None,
            ends_ms=self.nodes.ends_ms(node, times.graceful_s),
            since_ms=since_ms,
            running=replica.running,
            queued=replica.queued,
            gauges=None if stats is None else stats.gauges,
            pid=details.pid,
            stage=stage if starts else None,
            eta_s=self._eta_s(replica.id, stage, times, at_ms - since_ms) if starts else None,
            fetch=self.weights.fetch_of(replica.id),
        )

    def _eta_s(self, id: str, stage: Stage, times: Times, age_ms: int) -> float:
        if stage is Stage.WAKE:
            return eta_s(times.wake_s, max(0, age_ms) / 1000)
        age_ms -= self.weights.fetch_ms(id)
        return eta_s(times.cold_s, max(0, age_ms) / 1000, self.weights.left_s(id))
