"""Which nodes a pool runs on: the labels that its replicas ask for, and why no type can hold them.
Pure; settings, declarations, the admin API and the controller ask the same."""

from collections.abc import Iterator, Sequence
from math import ceil
from typing import Protocol

from workers.nodes.node_type import MARKET_LABELS, MB, NodeType

EXTERNAL = "external"
SPOT = "spot"


class PlacedPool(Protocol):
    """What a pool says of its nodes."""

    @property
    def capacity_class(self) -> str: ...
    @property
    def market(self) -> str | None: ...
    @property
    def zone(self) -> str | None: ...
    @property
    def accelerator(self) -> str | None: ...
    @property
    def nodes(self) -> str | None: ...
    @property
    def num_cpus(self) -> float: ...
    @property
    def num_gpus(self) -> float: ...
    @property
    def num_nodes(self) -> int: ...
    @property
    def memory_mb(self) -> int | None: ...


def labels_of(pool: PlacedPool, types: Sequence[NodeType]) -> dict[str, str]:
    """The `label_selector` of its replicas; none where no nodes are declared."""
    if not types:
        return {}
    market = pool.market if pool.nodes else _market(pool)
    labels = {
        "ray.io/node-group": pool.nodes,
        "ray.io/market-type": None if market is None else MARKET_LABELS[market],
        "ray.io/availability-zone": pool.zone,
        "ray.io/accelerator-type": pool.accelerator,
    }
    return {key: value for key, value in labels.items() if value is not None}


def types_of(pool: PlacedPool, types: Sequence[NodeType]) -> list[NodeType]:
    """The types that can hold a replica."""
    asked = labels_of(pool, types).items()
    return [type for type in types if asked <= type.labels.items() and _holds(type, pool)]


def share_nanousd_per_s(pool: PlacedPool, types: Sequence[NodeType]) -> int:
    """What a replica costs as its share of a node, by CPUs or GPUs, whichever it takes more of; of
    several types the dearest."""
    return max((_share_nanousd(pool, type) for type in types_of(pool, types)), default=0)


def node_misfits(pool: PlacedPool, types: Sequence[NodeType]) -> Iterator[tuple[str, str]]:
    """Keys of a pool that no type can hold, each with the reason; the first one only, because the
    others follow from it."""
    if pool.capacity_class == EXTERNAL:
        keys = ("market", "accelerator", "nodes", "memory_mb")
        yield from ((key, "an external pool has no nodes") for key in keys if getattr(pool, key))
        return
    if pool.market is not None and (pool.market == SPOT) != (pool.capacity_class == SPOT):
        yield "market", f"{pool.market} contradicts capacity_class = {pool.capacity_class}"
        return
    if not types:
        if pool.nodes is not None:
            yield "nodes", f"no nodes are named {pool.nodes}: there are no [[nodes]]"
        elif pool.num_nodes > 1:
            yield "num_nodes", "all replicas run on one node: there are no [[nodes]]"
        return
    yield from _without_a_type(pool, types)


def _without_a_type(pool: PlacedPool, types: Sequence[NodeType]) -> Iterator[tuple[str, str]]:
    left = list(types)
    market = pool.market if pool.nodes else _market(pool)
    for key, value, attribute in (
        ("nodes", pool.nodes, "name"),
        ("market", market, "market"),
        ("zone", pool.zone, "zone"),
        ("accelerator", pool.accelerator, "accelerator"),
    ):
        if value is None:
            continue
        there = sorted({str(getattr(type, attribute)) for type in left})
        left = [type for type in left if getattr(type, attribute) == value]
        if not left:
            yield _key(key, pool), f"no nodes have {attribute} {value}; there is {', '.join(there)}"
            return
    if pool.nodes and (left[0].market == SPOT) != (pool.capacity_class == SPOT):
        words = f"{pool.nodes} is {left[0].market}, and the pool is {pool.capacity_class}"
        yield "capacity_class", words
        return
    names = ", ".join(type.name for type in left)
    for key, attribute in (("num_cpus", "cpus"), ("num_gpus", "gpus")):
        most = max(getattr(type, attribute) for type in left)
        if getattr(pool, key) > most * pool.num_nodes:
            yield key, f"a node has {most} at most ({names})"
            return
    if short := _short_of_memory(pool, left):
        yield "memory_mb", f"{short} ({names})"
        return
    holding = [type for type in left if _holds(type, pool)]
    if not holding:
        parts = ("its CPUs", "its GPUs", "its memory")[: 2 + (pool.memory_mb is not None)]
        yield "num_gpus", f"no node has {' and '.join(parts)} together ({names})"
    elif (most := sum(type.max for type in holding)) < pool.num_nodes:
        yield "num_nodes", f"there are {most} such nodes at most ({names})"


def _share_nanousd(pool: PlacedPool, type: NodeType) -> int:
    of_gpus = pool.num_gpus / type.gpus if type.gpus else 0.0
    return round(type.cost_nanousd_per_s * max(pool.num_cpus / type.cpus, of_gpus))


def bundles_of(pool: PlacedPool) -> list[dict[str, float]]:
    """What a replica takes of each node that it spans, in Ray's words."""
    each = {
        "CPU": pool.num_cpus / pool.num_nodes,
        "GPU": pool.num_gpus / pool.num_nodes,
        "memory": float(_memory_each_mb(pool) * MB),
    }
    return [{name: amount for name, amount in each.items() if amount}] * pool.num_nodes


def _key(key: str, pool: PlacedPool) -> str:
    """A market that the pool does not say is that of its class."""
    return "capacity_class" if key == "market" and pool.market is None else key


def _market(pool: PlacedPool) -> str:
    return pool.market or pool.capacity_class


def _holds(type: NodeType, pool: PlacedPool) -> bool:
    return (
        type.cpus * pool.num_nodes >= pool.num_cpus
        and type.gpus * pool.num_nodes >= pool.num_gpus
        and (type.replica_memory_mb or 0) >= _memory_each_mb(pool)
    )


def _memory_each_mb(pool: PlacedPool) -> int:
    """Of each node that a replica spans."""
    return ceil((pool.memory_mb or 0) / pool.num_nodes)


def _short_of_memory(pool: PlacedPool, types: Sequence[NodeType]) -> str | None:
    """Why none of the types has the memory. Ray brings a node for memory only where its type says
    how much it has."""
    amounts = [mb for type in types if (mb := type.replica_memory_mb) is not None]
    if pool.memory_mb is None or max(amounts, default=0) >= _memory_each_mb(pool):
        return None
    return f"a node has {max(amounts)} for replicas at most" if amounts else "no node says its own"
