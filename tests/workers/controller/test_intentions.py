"""What is remembered between rounds, and what follows when it is not."""

from tests.workers.published import make_pool
from workers.autoscaling.types import Phase, PoolView, ReplicaView
from workers.controller.fleet_publisher import Fleet, PoolEntry
from workers.controller.intentions import Intentions, PoolApps
from workers.controller.sighting import Sighting
from workers.settings import ControllerSettings

POOL = make_pool("p", "m", initial_replicas=1, max_replicas=3)
ALONE = PoolApps(POOL, "new")
BEHIND = PoolApps(POOL, "new", ("old",))


def sighting(target: int | None = None, *, warm: int = 0, at_ms: int = 10_000) -> Sighting:
    replicas = [ReplicaView(f"{target}-{i}", Phase.WARM, 0, idle_ms=0) for i in range(warm)]
    return Sighting(PoolView(at_ms, tuple(replicas), 0), cluster_target=target)


def intentions() -> Intentions:
    return Intentions(ControllerSettings())


def test_pool_that_the_cluster_does_not_know_starts_as_the_catalog_says() -> None:
    ours = intentions()
    ours.note_unknown(ALONE)
    decision = ours.decide(ALONE, {"new": sighting()}, waiting=0)
    assert decision.scales["new"].target == 1
    assert ours.needs_app("new") and not ours.is_cold("p")


def test_pool_of_a_lost_cluster_starts_as_it_was() -> None:
    ours = intentions()
    ours.decide(ALONE, {"new": sighting(2, warm=2)}, waiting=0)
    ours.note_unknown(ALONE)
    assert ours.decide(ALONE, {"new": sighting()}, waiting=0).scales["new"].target == 2


def test_pool_that_was_lost_while_it_was_replaced_starts_as_the_old_one_was() -> None:
    ours = intentions()
    before = PoolApps(POOL, "old")
    ours.decide(before, {"old": sighting(3, warm=3)}, waiting=0)
    ours.note_unknown(ALONE)
    assert ours.decide(ALONE, {"new": sighting()}, waiting=0).scales["new"].target == 3


def test_new_generation_starts_behind_the_old_one_with_as_many() -> None:
    ours = intentions()
    ours.note_unknown(BEHIND)
    seen = {"new": sighting(), "old": sighting(2, warm=2)}
    decision = ours.decide(BEHIND, seen, waiting=0)
    assert decision.serving == "old"
    assert {name: scale.target for name, scale in decision.scales.items()} == {"old": 2, "new": 2}


def test_new_leader_takes_counts_from_the_cluster_and_start_times_from_the_last_one() -> None:
    ours = intentions()
    ours.decide(ALONE, {"new": sighting(1, warm=1)}, waiting=0)
    ours.begin(Fleet(1, 1, 1, "other", (PoolEntry("p", 1, "", 42.0, 0, ()),)))
    assert ours.is_cold("p") and ours.cold_start_s(POOL) == 42.0
    assert ours.decide(ALONE, {"new": sighting(3, warm=3)}, waiting=0).scales["new"].target == 3


def test_what_left_the_catalog_is_forgotten() -> None:
    ours = intentions()
    ours.decide(ALONE, {"new": sighting(2, warm=2)}, waiting=0)
    ours.keep_only([])
    ours.note_unknown(ALONE)
    assert ours.decide(ALONE, {"new": sighting()}, waiting=0).scales["new"].target == 1


def test_new_leader_takes_over_who_sleeps_and_wakes_nobody() -> None:
    ours = intentions()
    ours.begin(Fleet(1, 1, 1, "other", (PoolEntry("p", 0, "", 42.0, 0, (), wake_s=0.3),)))
    replicas = (ReplicaView("a", Phase.SLEEPING, 0),)
    seen = Sighting(PoolView(10_000, replicas, 0), cluster_target=1)
    scale = ours.decide(ALONE, {"new": seen}, waiting=0).scales["new"]
    assert (scale.target, scale.count, scale.asleep) == (0, 1, {"a"})
    assert ours.wake_s(POOL) == 0.3
    scale = ours.decide(ALONE, {"new": seen}, waiting=1).scales["new"]
    assert (scale.target, scale.count, scale.asleep) == (1, 1, frozenset())
