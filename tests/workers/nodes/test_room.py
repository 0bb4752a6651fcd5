"""Nodes that are needed in any case: never more than any placement takes, and within all bounds."""

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from tests.workers.nodes.test_placement import POOLS, TYPES, Asked
from workers.nodes.node_type import NodeType
from workers.nodes.placement import bundles_of, types_of
from workers.nodes.room import bundles_and_labels, nodes_needed

REPLICAS = st.lists(st.tuples(POOLS, st.integers(0, 6)), max_size=4)


@dataclass
class Node:
    left: dict[str, float]

    def takes(self, bundle: dict[str, float]) -> bool:
        if any(self.left.get(name, 0.0) + 1e-9 < amount for name, amount in bundle.items()):
            return False
        for name, amount in bundle.items():
            self.left[name] -= amount
        return True


def placed(pools: list[tuple[Asked, int]], type: NodeType) -> int:
    """The nodes that one way to place all these replicas takes: each where it fits first."""
    nodes: list[Node] = []
    for pool, count in pools:
        for _ in range(count):
            others = [*nodes]
            for bundle in bundles_of(pool):
                node = next((node for node in others if node.takes(bundle)), None)
                if node is None:
                    node = Node(dict(type.resources))
                    nodes.append(node)
                    assert node.takes(bundle)
                else:
                    others.remove(node)  # a node holds one bundle of a replica
    return len(nodes)


@given(REPLICAS, TYPES)
def test_no_node_is_asked_for_that_some_placement_would_do_without(
    replicas: list[tuple[Asked, int]], types: list[NodeType]
) -> None:
    needed = nodes_needed(replicas, types)
    for type in types:
        held = [(pool, n) for pool, n in replicas if types_of(pool, types) == [type]]
        assert needed.get(type.name, 0) <= min(type.max, placed(held, type))
        assert bool(needed.get(type.name)) == any(count for _, count in held)


@given(REPLICAS, TYPES, st.data())
def test_more_replicas_never_need_fewer_nodes(
    replicas: list[tuple[Asked, int]], types: list[NodeType], data: st.DataObject
) -> None:
    more = [(pool, count + data.draw(st.integers(0, 3))) for pool, count in replicas]
    fewer, greater = nodes_needed(replicas, types), nodes_needed(more, types)
    assert all(greater[name] >= count for name, count in fewer.items())


@given(REPLICAS, TYPES)
def test_ray_is_asked_for_whole_nodes_of_a_type(
    replicas: list[tuple[Asked, int]], types: list[NodeType]
) -> None:
    needed = nodes_needed(replicas, types)
    bundles, labels = bundles_and_labels(needed, types)
    asked = [selector["ray.io/node-group"] for selector in labels]
    assert {name: asked.count(name) for name in asked} == needed
    by_name = {type.name: type for type in types}
    for bundle, name in zip(bundles, asked, strict=True):
        assert bundle == {"CPU": by_name[name].cpus}


def test_replicas_that_share_nodes_need_as_many_as_hold_them() -> None:
    one = NodeType(name="one", cpus=4, gpus=2, max=9)
    half = Asked("on_demand", num_cpus=1.0, num_gpus=0.5)
    assert nodes_needed([(half, 4)], [one]) == {"one": 1}
    assert nodes_needed([(half, 5)], [one]) == {"one": 2}
    assert nodes_needed([(half, 0)], [one]) == {}
    wide = replace(half, num_gpus=2.0, num_nodes=2)
    assert nodes_needed([(wide, 1)], [one]) == {"one": 2}


def test_pool_that_two_types_can_hold_is_left_to_ray() -> None:
    types = [NodeType(name="a", zone="a"), NodeType(name="b", zone="b")]
    assert nodes_needed([(Asked("on_demand"), 2)], types) == {}
    assert nodes_needed([(Asked("on_demand", zone="b"), 2)], types) == {"b": 1}
