"""How many nodes of each type the replicas of all pools need at least. Pure.

A replica that has no place brings a node by itself, once its application is deployed and its
process is asked for. So that nodes come meanwhile, the autoscaler is asked for those that are
needed in any case: as many as hold all CPUs, GPUs and memory together. Fewer cannot hold them,
whatever is placed beside what, so no node comes that would not have come later. Pools that several
types can hold are left to Ray, which alone decides where they go.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import ceil

from workers.nodes.node_type import NodeType
from workers.nodes.placement import PlacedPool, bundles_of, types_of

ERRORS = 1e-9
"""What sums of floats may be too large by."""


def nodes_needed(
    replicas: Iterable[tuple[PlacedPool, int]], types: Sequence[NodeType]
) -> dict[str, int]:
    """By type; `replicas` has the count of each pool."""
    taken: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    least: dict[str, int] = {}
    for pool, count in replicas:
        holding = types_of(pool, types)
        if count < 1 or len(holding) != 1:
            continue
        [type] = holding
        least[type.name] = max(least.get(type.name, 0), pool.num_nodes)
        for bundle in bundles_of(pool):
            for name, amount in bundle.items():
                taken[type.name][name] += count * amount
    return {
        type.name: min(type.max, max(least[type.name], _whole(taken[type.name], type)))
        for type in types
        if type.name in least
    }


def _whole(taken: dict[str, float], type: NodeType) -> int:
    return max(ceil(amount / type.resources[name] - ERRORS) for name, amount in taken.items())


def bundles_and_labels(
    needed: dict[str, int], types: Sequence[NodeType]
) -> tuple[tuple[dict[str, float], ...], tuple[dict[str, str], ...]]:
    """The same as Ray's autoscaler is asked: all CPUs of each node, and its type."""
    each = [type for type in types for _ in range(needed.get(type.name, 0))]
    return (
        tuple({"CPU": float(type.cpus)} for type in each),
        tuple({"ray.io/node-group": type.name} for type in each),
    )
