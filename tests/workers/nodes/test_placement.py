"""Which nodes hold a pool: a pool is refused exactly where no type can hold it."""

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from workers.nodes.node_type import NodeType
from workers.nodes.placement import (
    bundles_of,
    labels_of,
    node_misfits,
    share_nanousd_per_s,
    types_of,
)

MARKETS = ("reserved", "on_demand", "spot")
ZONES = st.sampled_from([None, "a", "b"])
PARTS = st.sampled_from([None, "h100", "l4"])
COUNTS = st.integers(1, 3)


@dataclass(frozen=True)
class Asked:
    capacity_class: str = "reserved"
    market: str | None = None
    zone: str | None = None
    accelerator: str | None = None
    nodes: str | None = None
    num_cpus: float = 0.25
    num_gpus: float = 0.0
    num_nodes: int = 1


TYPES = st.lists(
    st.builds(
        NodeType,
        name=st.sampled_from(["one", "two", "three"]),
        market=st.sampled_from(MARKETS),
        zone=ZONES,
        accelerator=PARTS,
        cpus=COUNTS,
        gpus=st.integers(0, 2),
        max=COUNTS,
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda type: type.name,
)
POOLS = st.builds(
    Asked,
    capacity_class=st.sampled_from(MARKETS),
    market=st.sampled_from([None, *MARKETS]),
    zone=ZONES,
    accelerator=PARTS,
    nodes=st.sampled_from([None, "one", "two"]),
    num_cpus=st.sampled_from([0.25, 2.0, 3.5]),
    num_gpus=st.sampled_from([0.0, 1.0, 3.0]),
    num_nodes=st.sampled_from([1, 1, 2, 4]),
)


@given(POOLS, TYPES)
def test_pool_is_refused_at_one_field_where_no_type_holds_it(
    pool: Asked, types: list[NodeType]
) -> None:
    mistakes = list(node_misfits(pool, types))
    assert len(mistakes) <= 1
    if not mistakes:
        assert types_of(pool, types)
    elif mistakes[0][0] == "num_nodes":
        assert sum(type.max for type in types_of(pool, types)) < pool.num_nodes
    elif mistakes[0][0] not in ("market", "capacity_class"):
        assert not types_of(pool, types)
    for key, words in mistakes:
        assert hasattr(pool, key) and words


@given(POOLS, TYPES)
def test_every_node_of_a_type_that_holds_a_pool_has_all_labels_it_asks_for(
    pool: Asked, types: list[NodeType]
) -> None:
    asked = labels_of(pool, types)
    assert asked
    for type in types_of(pool, types):
        assert asked.items() <= type.labels.items()
        each = {"CPU": type.cpus, "GPU": type.gpus}
        assert all(amount <= each[name] for name, amount in bundles_of(pool)[0].items())


@given(POOLS, TYPES)
def test_replicas_that_fill_a_node_cost_no_more_than_it(pool: Asked, types: list[NodeType]) -> None:
    """Or than the nodes that they span."""
    dear = [type.model_copy(update={"cost_nanousd_per_s": 12_000}) for type in types]
    share = share_nanousd_per_s(pool, dear)
    assert bool(share) == bool(types_of(pool, dear)) and share <= 12_000 * pool.num_nodes
    for type in types_of(pool, dear):
        assert share >= round(12_000 * pool.num_cpus / type.cpus)


@given(POOLS)
def test_bundles_are_the_whole_of_a_replica(pool: Asked) -> None:
    bundles = bundles_of(pool)
    assert len(bundles) == pool.num_nodes
    for name, whole in (("CPU", pool.num_cpus), ("GPU", pool.num_gpus)):
        assert abs(sum(each.get(name, 0.0) for each in bundles) - whole) < 1e-9


def test_replica_over_several_nodes_needs_so_many() -> None:
    one = NodeType(name="one", gpus=1, max=2)
    wide = Asked("on_demand", num_gpus=2.0, num_nodes=2)
    assert not list(node_misfits(wide, [one]))
    assert dict(node_misfits(replace(wide, num_gpus=3.0, num_nodes=3), [one])) == {
        "num_nodes": "there are 2 such nodes at most (one)"
    }
    assert dict(node_misfits(wide, ())) == {
        "num_nodes": "all replicas run on one node: there are no [[nodes]]"
    }


@given(POOLS)
def test_without_nodes_nothing_is_asked_for(pool: Asked) -> None:
    assert labels_of(pool, ()) == {}


def test_pool_on_spot_nodes_says_so_in_its_class() -> None:
    spot = NodeType(name="cheap", market="spot")
    assert dict(node_misfits(Asked(nodes="cheap"), [spot])) == {
        "capacity_class": "cheap is spot, and the pool is reserved"
    }
    assert not list(node_misfits(Asked("spot", nodes="cheap"), [spot]))
    assert not list(node_misfits(Asked("spot"), [spot]))
    assert dict(node_misfits(Asked(market="spot"), [spot])) == {
        "market": "spot contradicts capacity_class = reserved"
    }
