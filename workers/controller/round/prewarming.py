"""Nodes that Ray's autoscaler is asked for before replicas wait for them (`workers.nodes.room`).

What is asked for holds until it is taken back, also over the end of this controller. So it is said
again where another cluster runs or another controller leads, even where it is nothing. In a cluster
of others nothing is asked for: there is one request for all of a cluster, which may be theirs.
"""

from collections.abc import Iterable, Sequence

from workers.catalog import Pool
from workers.nodes.node_type import NodeType
from workers.nodes.room import bundles_and_labels, nodes_needed
from workers.ray.file import RayFile
from workers.writer.controller_writes import ControllerWrites
from workers.writer.writes import RequestNodes


class Prewarming:
    """Call `ask` once a round."""

    def __init__(self, types: Sequence[NodeType]) -> None:
        self._types = types
        self._asked: tuple[object, RequestNodes] | None = None

    def begin(self) -> None:
        """Start leading: nobody knows what an earlier controller asked for."""
        self._asked = None

    async def ask(
        self,
        writes: ControllerWrites,
        place: RayFile | None,
        replicas: Iterable[tuple[Pool, int]],
    ) -> None:
        if place is None or place.joined or not self._types:
            return
        needed = nodes_needed(replicas, self._types)
        request = RequestNodes(*bundles_and_labels(needed, self._types))
        if self._asked != (place.life, request) and (await writes.do(request)).is_known:
            self._asked = (place.life, request)
