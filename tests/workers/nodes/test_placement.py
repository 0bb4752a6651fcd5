"""Which nodes hold a pool: a pool is refused exactly where no type can hold it."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

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
    memory_mb: int | None = None


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
        memory_mb=st.sampled_from([None, 400, 4_000]),
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
    memory_mb=st.sampled_from([None, None, 300, 3_000, 7_000]),
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
        each = type.resources
        assert all(amount <= each.get(name, 0) for name, amount in bundles_of(pool)[0].items())


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
    memory = sum(each.get("memory", 0.0) for each in bundles)
    assert 0 <= memory - (pool.memory_mb or 0) * 1e6 < 1e6 * pool.num_nodes


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


@given(memory_mb=st.integers(1, 10**6), system_mb=st.none() | st.integers(0, 10**6))
def test_memory_that_is_set_aside_for_the_system_is_promised_to_no_replica(
    memory_mb: int, system_mb: int | None
) -> None:
    if system_mb is not None and system_mb >= memory_mb:
        with pytest.raises(ValidationError, match="nothing is left for replicas"):
            NodeType(name="n", memory_mb=memory_mb, system_memory_mb=system_mb)
        return
    type = NodeType(name="n", memory_mb=memory_mb, system_memory_mb=system_mb)
    aside_mb = min(512, memory_mb // 4) if system_mb is None else system_mb
    assert type.resources["memory"] == (memory_mb - aside_mb) * 1e6
    most = Asked("on_demand", memory_mb=memory_mb - aside_mb)
    assert not list(node_misfits(most, [type]))
    over = replace(most, memory_mb=memory_mb - aside_mb + 1)
    assert dict(node_misfits(over, [type])) == {
        "memory_mb": f"a node has {memory_mb - aside_mb} for replicas at most (n)"
    }


def test_pool_that_asks_for_memory_runs_on_no_node_that_says_none() -> None:
    silent = NodeType(name="n")
    assert dict(node_misfits(Asked("on_demand", memory_mb=1), [silent])) == {
        "memory_mb": "no node says its own (n)"
    }
    assert dict(node_misfits(Asked("external", memory_mb=1), [silent])) == {
        "memory_mb": "an external pool has no nodes"
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
