"""The nodes of a cluster that is somebody else's, kept in a folder as our own nodes are
(`workers.nodes.folder`), so that everybody reads both in the same way.

A node is one of a type of `[[nodes]]` where it has the labels of that type. The others are not for
our replicas, and are left out.
"""

from collections.abc import Iterable, Sequence

import msgspec

from workers.nodes.folder import End, Launch, MachineNode, NodesFolder, Raylet
from workers.nodes.node_type import NodeState, NodeType

GROUP = "ray.io/node-group"
ALIVE = "ALIVE"
UNEXPECTED = "Unexpected"
"""How Ray's words begin for a node that ended by itself."""
ENDED_MAX = 100
"""So many nodes that ended are remembered, for people to look at."""
NO_PID = 0
"""Of a raylet on another machine."""


class RayNode(msgspec.Struct, frozen=True):
    """A node in the words of Ray's dashboard. One that ended is there for a while."""

    node_id: str
    state: str
    labels: dict[str, str] = {}
    state_message: str | None = None
    start_time_ms: int = 0
    end_time_ms: int = 0


def type_of(node: RayNode, types: Sequence[NodeType]) -> str | None:
    """The name of the first type whose labels the node has. The name of its group need not be that
    of the type, if it has none."""
    for type in types:
        has = {GROUP: type.name} | node.labels
        if type.labels.items() <= has.items():
            return type.name
    return None


def end_of(node: RayNode | None, before: MachineNode) -> tuple[NodeState, str]:
    """How a node ended. One that was told to go is not lost."""
    message = "" if node is None else node.state_message or ""
    if before.notice is not None:
        return NodeState.GONE, before.notice.why
    is_lost = not message or message.startswith(UNEXPECTED)
    return NodeState.LOST if is_lost else NodeState.GONE, message or "its cluster forgot it"


class NodesMirror:
    """Writes what has changed since the last look."""

    def __init__(self, folder: NodesFolder, types: Sequence[NodeType]) -> None:
        self._folder = folder
        self._types = types

    def note(self, nodes: Iterable[RayNode], now_ms: int) -> None:
        """All nodes that the cluster names now."""
        named = {node.node_id: node for node in nodes}
        known = {node.launch.id: node for node in self._folder.nodes()}
        for id, node in named.items():
            type = type_of(node, self._types)
            if type is not None and node.state == ALIVE and id not in known:
                self._folder.launch(Launch(id, type, {}, node.start_time_ms))
                self._folder.note_raylet(id, Raylet(NO_PID, id))
        for id, before in known.items():
            if before.is_alive and (id not in named or named[id].state != ALIVE):
                self._folder.note_end(id, End(*end_of(named.get(id), before), now_ms))
        ended = [each for each in self._folder.nodes() if not each.is_alive]
        for gone in ended[:-ENDED_MAX]:
            self._folder.forget(gone.launch.id)
