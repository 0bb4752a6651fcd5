"""The nodes of this machine as the controller sees them: published for gateways, drained on demand.

Reads the folder where each node says what it is (`workers.nodes.folder`), or where the nodes of a
joined cluster are kept. Where no nodes are declared it does nothing.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
from redis.asyncio import Redis

from workers.catalog import Pool
from workers.controller.drains import BY_HAND, forget_drain, read_drains
from workers.controller.fleet_publisher import NodeEntry
from workers.controller.sighting import Sighting
from workers.nodes.folder import Failure, MachineNode, NodesFolder, Notice
from workers.nodes.node_type import NodeState, NodeType
from workers.nodes.placement import node_misfits, types_of
from workers.ray.file import RayFile
from workers.ray.serve_api import ServeDetails
from workers.writer.controller_writes import ControllerWrites
from workers.writer.writes import DrainNode

FAILS_NOW_MS = 5_000
"""Ray tries a launch again every second. A failure older than this is of another attempt."""


@dataclass(slots=True)
class NodeWatch:
    """Call `look` once a round, then the others."""

    redis: Redis
    types: Sequence[NodeType]
    _folder: NodesFolder | None = None
    _is_joined: bool = False
    _nodes: tuple[MachineNode, ...] = ()
    _failures: Mapping[str, Failure] = field(default_factory=dict)

    def look(self, place: RayFile | None) -> None:
        if not self.types:
            return
        self._folder = None if place is None else NodesFolder(place.nodes_folder)
        self._is_joined = place is not None and bool(place.joined)
        self._nodes, self._failures = (), {}
        if self._folder is not None:
            self._nodes = tuple(self._folder.nodes())
            self._failures = self._folder.failures()

    async def drain(self, writes: ControllerWrites, at_ms: int) -> None:
        """Drain what was asked for. Raises redis.RedisError."""
        if not self.types:
            return
        for id, order in (await read_drains(self.redis)).items():
            deadline_ms = at_ms + round(order.deadline_s * 1000)
            outcome = await writes.do(DrainNode(id, deadline_ms, order.why, at_ms))
            if outcome.is_known:
                await forget_drain(self.redis, id)
            if outcome.is_known and not outcome.refusal and self._is_joined:
                self._note_drain(id, Notice(deadline_ms, order.why, at_ms))

    def _note_drain(self, id: str, notice: Notice) -> None:
        """No watcher of ours beside a node of somebody else's cluster says so."""
        if self._folder is not None and self._folder.node(id) is not None:
            self._folder.note_notice(id, notice)

    @property
    def all(self) -> Sequence[MachineNode]:
        return self._nodes

    def is_leaving(self, node_id: str | None) -> bool:
        """Whether no new call goes there any more."""
        states = {node.launch.id: node.state for node in self._nodes}
        return states.get(node_id or "") not in (None, NodeState.LAUNCHING, NodeState.READY)

    def ends_ms(self, node_id: str | None, graceful_s: float) -> int | None:
        """When the calls of a replica there end at the latest; None: nothing ends them."""
        notices = {node.launch.id: node.notice for node in self._nodes}
        notice = notices.get(node_id or "")
        return None if notice is None else calls_end_ms(notice, graceful_s)

    def barred(self, pool: Pool, sighting: Sighting, at_ms: int) -> Sighting:
        """The sighting with why its pool cannot start, where no node can be had for it."""
        why = self._why_not(pool, at_ms)
        if why is None or sighting.view.failure is not None:
            return sighting
        return replace(sighting, view=replace(sighting.view, failure=why))

    def zone(self, pool: Pool) -> str:
        """Where a pool runs, its own name where nobody says one zone."""
        zones = {type.zone for type in types_of(pool, self.types)}
        return pool.zone or (zones.pop() if len(zones) == 1 else None) or pool.name

    def trouble_ms(self, pool: Pool) -> int | None:
        """When the nodes of a pool last were refused, taken away or lost."""
        names = {type.name for type in types_of(pool, self.types)}
        troubles = [each.at_ms for name, each in self._failures.items() if name in names]
        for node in self._nodes:
            if node.launch.type not in names:
                continue
            if node.end is not None and node.end.state is NodeState.LOST:
                troubles.append(node.end.at_ms)
            if node.notice is not None and node.notice.why != BY_HAND:
                troubles.append(node.notice.at_ms)
        return max(troubles, default=None)

    def entries(
        self, details: ServeDetails, held_by: Callable[[str], tuple[str, ...]]
    ) -> tuple[NodeEntry, ...]:
        """`held_by`: checkpoints of a node, by Ray's id of it."""
        replicas = Counter(id for id in details.nodes.values() if id is not None)
        types = {type.name: type for type in self.types}
        return tuple(
            msgspec.structs.replace(
                _entry(node, types[node.launch.type], replicas[node.launch.id]),
                weights=held_by(node.raylet.node_id) if node.raylet and node.is_alive else (),
            )
            for node in self._nodes
            if node.launch.type in types
        )

    def _why_not(self, pool: Pool, at_ms: int) -> str | None:
        """The provider's last words where every type that holds the pool fails just now."""
        if not self.types:
            return None
        for key, words in node_misfits(pool, self.types):
            return f"{key}: {words}"
        names = [type.name for type in types_of(pool, self.types)]
        if any(node.is_alive and node.launch.type in names for node in self._nodes):
            return None
        failures = [self._failures.get(name) for name in names]
        if all(each is not None and at_ms - each.at_ms < FAILS_NOW_MS for each in failures):
            return "; ".join(each.words for each in failures if each is not None)
        return None


def calls_end_ms(notice: Notice, graceful_s: float) -> int:
    """Serve stops a replica once another one runs in its place, and ends it that long after: so at
    once, for all that is known here."""
    return min(notice.deadline_ms, notice.at_ms + round(graceful_s * 1000))


def _entry(node: MachineNode, type: NodeType, replicas: int) -> NodeEntry:
    leaving = node.end or node.notice
    return NodeEntry(
        id=node.launch.id,
        type=type.name,
        market=type.market,
        zone=type.zone,
        state=node.state,
        cost_nanousd_per_s=type.cost_nanousd_per_s,
        replicas=replicas if node.is_alive else 0,
        launched_ms=node.launch.at_ms,
        deadline_ms=None if node.notice is None else node.notice.deadline_ms,
        ended_ms=None if node.end is None else node.end.at_ms,
        why=None if leaving is None else leaving.why,
        pid=None if node.raylet is None else node.raylet.pid,
    )
