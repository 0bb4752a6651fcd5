"""What the controller makes of the pools of a mix, and what a new leader takes over."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from redis.asyncio import Redis

from tests.workers.published import make_pool
from workers.autoscaling.demand import NO_DEMAND, Demand
from workers.autoscaling.mixes import Share
from workers.autoscaling.types import Phase, PoolView, ReplicaView
from workers.catalog import Pool
from workers.controller.drains import BY_HAND
from workers.controller.fleet_publisher import Fleet, PoolEntry
from workers.controller.intentions import Intentions, PoolApps
from workers.controller.lost_replicas import LostReplicas
from workers.controller.mixes import Mixes
from workers.controller.nodes import NodeWatch
from workers.controller.sighting import Sighting
from workers.mix import Mix
from workers.nodes.folder import End, Failure, Launch, MachineNode, Notice, Raylet
from workers.nodes.node_type import NodeState, NodeType
from workers.ray.serve_api import ReplicaDetails
from workers.settings import ControllerSettings

TYPES = (
    NodeType(name="rented", market="on_demand"),
    NodeType(name="spot-a", market="spot", zone="a"),
    NodeType(name="spot-b", market="spot", zone="b"),
)
MIX = Mix(name="chat", model="m", pools=("rented", "spot-a", "spot-b"))


def spot_pool(name: str, **fields: Any) -> Pool:
    return make_pool(name, "m", capacity_class="spot", nodes=name, max_ongoing=4, **fields)


RENTED = make_pool(
    "rented",
    "m",
    capacity_class="on_demand",
    nodes="rented",
    cost_nanousd_per_s=1000,
    max_ongoing=4,
)
POOLS = (
    RENTED,
    spot_pool("spot-a", cost_nanousd_per_s=300),
    spot_pool("spot-b", cost_nanousd_per_s=310),
)


def watch(
    nodes: Sequence[MachineNode] = (), failures: Mapping[str, Failure] | None = None
) -> NodeWatch:
    return NodeWatch(cast(Redis, None), TYPES, _nodes=tuple(nodes), _failures=failures or {})


def mixes(nodes: NodeWatch) -> Mixes:
    settings = ControllerSettings()
    return Mixes([MIX], settings, Intentions(settings), nodes, LostReplicas())


def seen(warm: Mapping[str, int], node: str | None = None, *, at_ms: int) -> dict[str, Sighting]:
    """Each pool with so many warm replicas, all on that node."""
    sightings = {}
    for pool in POOLS:
        ids = [f"{pool.name}-{number}" for number in range(warm.get(pool.name, 0))]
        replicas = tuple(ReplicaView(id, Phase.WARM, 0, idle_ms=0) for id in ids)
        serve = {id: cast(ReplicaDetails, _Replica(node)) for id in ids}
        sightings[pool.name] = Sighting(
            PoolView(at_ms, replicas, 0), serve=serve, cluster_target=len(ids)
        )
    return sightings


class _Replica:
    def __init__(self, node: str | None) -> None:
        self.node_instance_id = node


def shares(
    ours: Mixes, sightings: dict[str, Sighting], waiting: Mapping[str, int], at_ms: int
) -> dict[str, int | None]:
    demands = {pool.name: NO_DEMAND for pool in POOLS} | {"other": NO_DEMAND}
    apps = [PoolApps(pool, pool.name) for pool in POOLS]
    after: Mapping[str, Demand] = ours.with_shares(apps, sightings, waiting, demands, at_ms)
    return {name: demand.share for name, demand in after.items()}


def node(type: str, **fields: Any) -> MachineNode:
    whole = {"process": None, "raylet": Raylet(7, "ab"), "notice": None, "end": None} | fields
    return MachineNode(Launch(f"{type}-1", type, {}, 1), **whole)


def test_call_that_waits_for_one_pool_of_a_cold_mix_starts_spot_and_what_bridges() -> None:
    ours = mixes(watch())
    sightings = seen({}, at_ms=1_000)
    assert shares(ours, sightings, {}, 1_000) == {
        "rented": 0,
        "spot-a": 0,
        "spot-b": 0,
        "other": None,
    }
    assert ours.blocked("spot-b", has_any=False) is None
    after = shares(ours, seen({}, at_ms=2_000), {"spot-b": 1}, 2_000)
    assert (after["rented"], after["spot-a"], after["spot-b"]) == (1, 1, 0)
    blocked = ours.blocked("spot-b", has_any=False)
    assert blocked == "mix chat runs on its other pools: 0 of 1 on spot"
    assert ours.blocked("spot-b", has_any=True) is None
    assert ours.blocked("other", has_any=False) is None


def test_replicas_of_a_node_that_leaves_are_bridged_at_once_and_replaced_elsewhere() -> None:
    notice = Notice(60_000, "spot capacity in a was taken away", 1_500)
    ours = mixes(watch([node("spot-a", notice=notice)]))
    ours.begin(_fleet(need=1, bridge=0))
    after = shares(ours, seen({"spot-a": 1}, "spot-a-1", at_ms=2_000), {}, 2_000)
    assert (after["rented"], after["spot-a"], after["spot-b"]) == (1, 1, 1)
    assert (share := ours.share("spot-a")) is not None and share.share == 0
    gone = mixes(watch([node("spot-a", end=End(NodeState.LOST, "killed", 1_500))]))
    gone.begin(_fleet(need=1, bridge=0))
    after = shares(gone, seen({}, at_ms=2_000), {}, 2_000)
    assert (after["rented"], after["spot-a"], after["spot-b"]) == (1, 0, 1)


def test_new_leader_goes_on_with_the_need_and_the_bridge_of_the_last_one() -> None:
    ours = mixes(watch())
    ours.begin(_fleet(need=2, bridge=1))
    after = shares(ours, seen({"rented": 1, "spot-a": 1, "spot-b": 1}, at_ms=2_000), {}, 2_000)
    assert (after["rented"], after["spot-a"], after["spot-b"]) == (1, 1, 1)
    fresh = mixes(watch())
    fresh.begin(None)
    after = shares(fresh, seen({"spot-a": 1, "spot-b": 1}, at_ms=2_000), {}, 2_000)
    assert (after["rented"], after["spot-a"], after["spot-b"]) == (0, 1, 1)


def test_mix_begins_with_what_its_pools_begin_with_wherever_that_is() -> None:
    ours = mixes(watch())
    apps = [
        PoolApps(spot_pool(name, initial_replicas=count), name)
        for name, count in (("spot-a", 0), ("spot-b", 1))
    ]
    demands = {each.pool.name: NO_DEMAND for each in apps}
    after = ours.with_shares(apps, seen({}, at_ms=1_000), {}, demands, 1_000)
    assert [after[each.pool.name].share for each in apps] == [1, 0]


def _fleet(need: int, bridge: int) -> Fleet:
    share = Share(
        mix="chat",
        share=0,
        why="",
        need=need,
        base=0,
        spare=0,
        spot_target=need,
        spot_ready=0,
        bridge_needed=bridge,
        bridge=bridge,
    )
    return Fleet(1, 1, 1, "other", (PoolEntry("rented", 1, "", 1.0, 0, (), mix=share),))


def test_trouble_of_a_pool_is_the_last_refusal_notice_or_loss_of_its_nodes() -> None:
    spot = POOLS[1]
    assert watch().trouble_ms(spot) is None
    refused = {"spot-a": Failure(5_000, "no capacity"), "spot-b": Failure(8_000, "no capacity")}
    assert watch(failures=refused).trouble_ms(spot) == 5_000
    lost = node("spot-a", end=End(NodeState.LOST, "killed", 6_000))
    assert watch([lost], refused).trouble_ms(spot) == 6_000
    idle = node("spot-a", end=End(NodeState.GONE, "idle", 7_000))
    by_hand = node("spot-a", notice=Notice(99_000, BY_HAND, 7_000))
    assert watch([idle, by_hand]).trouble_ms(spot) is None
    leaves = node("spot-a", notice=Notice(99_000, "taken away", 7_000))
    assert watch([leaves]).trouble_ms(spot) == 7_000


def test_zone_of_a_pool_is_its_own_else_that_of_its_nodes_else_its_name() -> None:
    ours = watch()
    assert ours.zone(POOLS[1]) == "a" and ours.zone(RENTED) == "rented"
    anywhere = make_pool("any", "m", capacity_class="spot")
    assert ours.zone(anywhere) == "any"
    assert ours.zone(make_pool("b", "m", capacity_class="spot", zone="b")) == "b"
