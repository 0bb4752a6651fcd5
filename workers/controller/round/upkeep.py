"""What is paid for besides replicas: spares, and what no replica takes of nodes. Each has a life in
reports to the ledger, as a replica has one, under a pool of its own that nobody can declare.

A spare computes nothing and holds memory that it shares with others: it costs as SPARE_CPUS of a
core there. A core costs what its node costs for each; without `[[nodes]]`, as much as the dearest
pool of ours pays for one. What neither replicas nor spares take of a node is its idle time.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import psutil

from workers.catalog import Pool
from workers.controller.fleet_publisher import NodeEntry
from workers.controller.lifetimes import LiveReplica, Price
from workers.controller.replica_api import ReplicaStats
from workers.nodes.folder import MachineNode
from workers.nodes.node_type import HEAD, NodeState, NodeType
from workers.ray.file import RayFile
from workers.ray.session import Session, members
from workers.ray.template import SPARE_TITLE

SPARES = "spares"
"""The pool of all spares."""
SPARE_CPUS = 0.05
COUNT_EVERY_MS = 5_000
ALIVE = (NodeState.LAUNCHING, NodeState.READY, NodeState.DRAINING)
IDLE = ReplicaStats(running=0, queued=0, warm_ms=0, draining=True)
"""What a life says of itself that computes nothing, and loses nothing when it ends."""


def pool_of_nodes(type: str) -> str:
    """The pool of what nobody takes of the nodes of a type."""
    return f"node:{type}"


class Spares:
    """How many spares run, by the id of their node or `head`; counted every COUNT_EVERY_MS."""

    def __init__(self) -> None:
        self.counts: Mapping[str, int] = {}
        self._counted_ms = 0

    async def count(self, place: RayFile | None, nodes: Iterable[MachineNode], at_ms: int) -> None:
        if at_ms - self._counted_ms < COUNT_EVERY_MS:
            return
        self._counted_ms = at_ms
        sessions = {} if place is None or place.joined else {HEAD: place.session}
        sessions |= {
            node.launch.id: node.process.session
            for node in nodes
            if node.process is not None and node.is_alive
        }
        self.counts = await asyncio.to_thread(_spares, sessions)


def _spares(sessions: Mapping[str, Session]) -> dict[str, int]:
    counts = {place: sum(map(_is_spare, members(each))) for place, each in sessions.items()}
    return {place: count for place, count in counts.items() if count}


def _is_spare(process: psutil.Process) -> bool:
    try:
        return process.name() == SPARE_TITLE
    except psutil.Error:
        return False


def spares_by_type(counts: Mapping[str, int], nodes: Sequence[NodeEntry]) -> dict[str, int]:
    """For the fleet: by type of node, `head` for those of none."""
    types = {node.id: node.type for node in nodes}
    by_type: defaultdict[str, int] = defaultdict(int)
    for place, count in counts.items():
        by_type[types.get(place, HEAD)] += count
    return dict(by_type)


def upkeep(
    replicas: Sequence[LiveReplica],
    prices: Mapping[str, Price],
    *,
    nodes: Sequence[NodeEntry],
    types: Sequence[NodeType],
    spares: Mapping[str, int],
    pools: Sequence[Pool],
    life: str,
    at_us: int,
) -> list[LiveReplica]:
    """What runs besides these replicas. `life`: of the cluster, so that spares of another one are
    others."""
    taken: defaultdict[str, float] = defaultdict(float)
    for one in replicas:
        if one.node is not None and one.pool in prices:
            taken[one.node] += prices[one.pool].nanousd_per_s * one.price_share
    by_name = {type.name: type for type in types}
    alive = [n for n in nodes if n.state in ALIVE and n.type in by_name and n.cost_nanousd_per_s]
    others = []
    for node in alive:
        core = by_name[node.type].cost_nanousd_per_s / by_name[node.type].cpus
        of_spares = round(spares.get(node.id, 0) * SPARE_CPUS * core)
        if of_spares:
            others.append(_spare(f"{node.id}:{SPARES}", of_spares, at_us))
        rest = max(0, round(node.cost_nanousd_per_s - taken[node.id] - of_spares))
        others.append(
            LiveReplica(
                replica=f"node:{node.id}",
                pool=pool_of_nodes(node.type),
                started_us=node.launched_ms * 1000,
                stats=None if node.state == NodeState.LAUNCHING else IDLE,
                nanousd_per_s=rest,
            )
        )
    of_head = round(spares.get(HEAD, 0) * SPARE_CPUS * _core_nanousd(pools, at_us))
    return [*others, _spare(f"{life}:{SPARES}", of_head, at_us)] if of_head else others


def _spare(id: str, nanousd_per_s: int, at_us: int) -> LiveReplica:
    return LiveReplica(id, SPARES, at_us, IDLE, nanousd_per_s=nanousd_per_s)


def _core_nanousd(pools: Iterable[Pool], at_us: int) -> float:
    costs = [pool.cost_at(at_us) / pool.num_cpus for pool in pools if not pool.num_gpus]
    return max(costs, default=0.0)
