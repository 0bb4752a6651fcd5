"""Replicas as the fleet shows them."""

from unittest.mock import create_autospec

from redis.asyncio import Redis

from workers.autoscaling.stages import Stage
from workers.autoscaling.types import Phase, PoolView, ReplicaView
from workers.controller.fleet_publisher import ReplicaEntry
from workers.controller.nodes import NodeWatch
from workers.controller.replica_api import ReplicaStats
from workers.controller.round.replica_entries import ReplicaEntries, Times
from workers.controller.sighting import Sighting
from workers.controller.weights import WeightsWatch
from workers.ray.serve_api import ReplicaDetails

AT_MS = 60_000
WAKING = ReplicaStats(running=0, queued=0, asleep=True, waking=True)


def entry(
    phase: Phase, shown: Phase, stats: ReplicaStats | None = None, *, leaves: bool = False
) -> ReplicaEntry:
    view = PoolView(AT_MS, (ReplicaView("r", phase, AT_MS - 2_000),), 0)
    details = ReplicaDetails("r", "SERVE_REPLICA::p#engine#r", "RUNNING", 1.0, pid=7)
    nodes = create_autospec(NodeWatch, instance=True)
    nodes.is_leaving.return_value, nodes.ends_ms.return_value = leaves, None
    entries = ReplicaEntries(lambda id: stats, nodes, WeightsWatch(Redis()), has_place=True)
    times = Times(cold_s=10.0, wake_s=3.0, graceful_s=1.0)
    sighting = Sighting(view, {"r": "http://r"}, {"r": details})
    (one,) = entries.of(sighting, {"r": shown}, times, AT_MS)
    return one


def test_start_tells_its_stage_and_the_rest_of_its_time() -> None:
    one = entry(Phase.STARTING, Phase.STARTING)
    assert (one.state, one.stage, one.eta_s, one.pid) == ("STARTING", Stage.WARM_UP, 8.0, 7)


def test_waking_has_a_stage_and_a_time_of_its_own() -> None:
    one = entry(Phase.STARTING, Phase.STARTING, WAKING)
    assert (one.stage, one.eta_s) == (Stage.WAKE, 1.0)


def test_sleeper_that_was_just_woken_begins_its_waking_now() -> None:
    one = entry(Phase.SLEEPING, Phase.STARTING)
    assert (one.state, one.stage, one.eta_s, one.since_ms) == (
        "STARTING",
        Stage.WAKE,
        3.0,
        AT_MS,
    )


def test_who_sleeps_or_works_starts_nothing() -> None:
    for phase in (Phase.SLEEPING, Phase.WARM, Phase.DRAINING):
        one = entry(phase, phase)
        assert (one.state, one.stage, one.eta_s) == (phase, None, None)


def test_replica_of_a_node_that_leaves_drains() -> None:
    assert entry(Phase.WARM, Phase.WARM, leaves=True).state == "DRAINING"
