"""Nodes of somebody else's cluster are listed as our own are, where a type of ours fits them."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from workers.existing.nodes import ENDED_MAX, NodesMirror, RayNode, type_of
from workers.nodes.folder import NodesFolder, Notice
from workers.nodes.node_type import NodeState, NodeType

BASE = NodeType(name="base", market="reserved", zone="a")
SPOT = NodeType(name="spot-b", market="spot", zone="b")
TYPES = (BASE, SPOT)
RESERVED_A = {"ray.io/market-type": "reserved", "ray.io/availability-zone": "a"}
SPOT_B = {"ray.io/market-type": "spot", "ray.io/availability-zone": "b"}


def node(
    id: str, state: str = "ALIVE", *, labels: dict[str, str] = SPOT_B, why: str = ""
) -> RayNode:
    return RayNode(id, state, labels, why or None, start_time_ms=1)


def mirror(folder: Path) -> tuple[NodesMirror, NodesFolder]:
    nodes = NodesFolder(folder / "nodes")
    return NodesMirror(nodes, TYPES), nodes


def test_a_type_is_known_by_market_zone_and_group() -> None:
    assert type_of(node("x", labels=RESERVED_A), TYPES) == "base"
    assert type_of(node("x", labels=SPOT_B | {"ray.io/node-id": "x"}), TYPES) == "spot-b"
    assert type_of(node("x", labels={}), TYPES) is None
    other = SPOT_B | {"ray.io/node-group": "workers-of-others"}
    assert type_of(node("x", labels=other), TYPES) is None


def test_nodes_come_and_go(tmp_path: Path) -> None:
    looks, nodes = mirror(tmp_path)
    looks.note([node("a"), node("b"), node("c"), node("head", labels={})], 10)
    assert {each.launch.id: each.state for each in nodes.nodes()} == dict.fromkeys(
        "abc", NodeState.READY
    )
    nodes.note_notice("c", Notice(99, "drained by an administrator", 11))
    lost = node("a", "DEAD", why="Unexpected termination: health check failed")
    looks.note([lost, node("b", "DEAD", why="Expected termination: idle")], 20)
    ends = {each.launch.id: each.end for each in nodes.nodes()}
    assert {id: end.state for id, end in ends.items() if end} == {
        "a": NodeState.LOST,
        "b": NodeState.GONE,
        "c": NodeState.GONE,
    }
    assert ends["c"] is not None and ends["c"].why == "drained by an administrator"


def test_a_node_that_the_cluster_forgot_is_lost(tmp_path: Path) -> None:
    looks, nodes = mirror(tmp_path)
    looks.note([node("a")], 10)
    looks.note([], 20)
    assert [each.state for each in nodes.nodes()] == [NodeState.LOST]


def test_few_that_ended_are_remembered(tmp_path: Path) -> None:
    looks, nodes = mirror(tmp_path)
    looks.note([node(f"n{number:03}") for number in range(ENDED_MAX + 5)], 10)
    looks.note([], 20)
    assert len(nodes.nodes()) == ENDED_MAX


LOOKS = st.lists(
    st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["ALIVE", "DEAD"])), max_size=6
)


@given(LOOKS)
def test_after_every_look_those_that_live_are_those_that_the_cluster_has(
    looks: list[dict[str, str]],
) -> None:
    """A node that ended never comes back: Ray gives every raylet an id of its own."""
    with TemporaryDirectory() as folder:
        mirrored, nodes = mirror(Path(folder))
        ended: set[str] = set()
        for number, look in enumerate(looks):
            mirrored.note([node(id, state) for id, state in look.items()], number)
            alive = {each.launch.id for each in nodes.nodes() if each.is_alive}
            assert alive == {id for id, state in look.items() if state == "ALIVE"} - ended
            ended |= {each.launch.id for each in nodes.nodes() if not each.is_alive}
