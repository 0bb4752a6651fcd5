"""The nodes of this machine for Ray's autoscaler: `provider.type: external` in its configuration.

Each node is a session of processes of its own (`workers.nodes.node`). The provider remembers
nothing: all stands in the folder of the nodes, so another monitor goes on where one was killed.
Launch failures and losses by a trace of capacity are told as a cloud would tell them.
"""

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4  # noqa: TID251 composition root

import msgspec
from ray.autoscaler.node_launch_exception import NodeLaunchException
from ray.autoscaler.node_provider import NodeProvider
from ray.autoscaler.tags import (
    NODE_KIND_HEAD,
    NODE_KIND_WORKER,
    STATUS_UP_TO_DATE,
    TAG_RAY_NODE_KIND,
    TAG_RAY_NODE_STATUS,
    TAG_RAY_USER_NODE_TYPE,
)

from workers.nodes.capacity import CapacityTrace
from workers.nodes.disks import remove_disks, store_variables
from workers.nodes.folder import (
    End,
    Failure,
    Launch,
    MachineNode,
    NodesFolder,
    Notice,
)
from workers.nodes.node import NodeOrder
from workers.nodes.node_type import ENDED, HEAD, NodeState, NodeType
from workers.ray.session import end_session

GRACE_S = 2.0
CHATTY = "ray.autoscaler._private.util"
"""It warns in every round of keys that Ray itself adds to the configuration."""
ENDED_MAX = 100
"""So many nodes that ended are remembered, for people to look at."""


Start = Callable[[NodeOrder, Path, str], "subprocess.Popen[bytes] | None"]


class MachineNodes(NodeProvider):  # type: ignore[misc]  # Ray has no types
    """Ray calls it from several threads."""

    def __init__(
        self,
        provider_config: dict[str, Any],
        cluster_name: str,
        *,
        start: Start | None = None,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        """`start` begins a node. Both are the machine's own unless a test moves them."""
        super().__init__(provider_config, cluster_name)
        self._start = start or _started
        self._now_ms = now_ms or _now_ms
        logging.getLogger(CHATTY).setLevel(logging.ERROR)
        self._folder = NodesFolder(Path(provider_config["folder"]))
        self._weights = Path(provider_config["weights_folder"])
        self._types = {
            type.name: type for type in map(NodeType.model_validate, provider_config["types"])
        }
        self._capacities = {
            name: capacity
            for name, type in self._types.items()
            if (capacity := type.capacity()) is not None
        }
        self._children: list[subprocess.Popen[bytes]] = []
        self._lock = threading.RLock()

    def non_terminated_nodes(self, tag_filters: dict[str, str]) -> list[str]:
        """The nodes that are alive, and the head. Ray asks for them in every round, so here is
        where nodes are lost."""
        with self._lock:
            self._children = [child for child in self._children if child.poll() is None]
            now_ms = self._now_ms()
            self._folder.note_deaths(now_ms)
            for name, capacity in self._capacities.items():
                self._take_away(self._types[name], capacity, now_ms)
            self._note_failed_starts()
            self._forget_old()
            remove_disks(self._weights, {node.launch.id for node in self._alive()})
            ids = [HEAD, *(node.launch.id for node in self._alive())]
        return [id for id in ids if tag_filters.items() <= self.node_tags(id).items()]

    def node_tags(self, node_id: str) -> dict[str, str]:
        if node_id == HEAD:
            return {TAG_RAY_NODE_KIND: NODE_KIND_HEAD, TAG_RAY_USER_NODE_TYPE: HEAD}
        node = self._folder.node(node_id)
        launch = {} if node is None else node.launch.tags
        return launch | {
            TAG_RAY_NODE_KIND: NODE_KIND_WORKER,
            TAG_RAY_NODE_STATUS: STATUS_UP_TO_DATE,
        }

    def is_running(self, node_id: str) -> bool:
        node = self._folder.node(node_id)
        return node_id == HEAD or (node is not None and node.is_alive)

    def is_terminated(self, node_id: str) -> bool:
        return not self.is_running(node_id)

    def create_node_with_resources_and_labels(
        self,
        node_config: dict[str, Any],
        tags: dict[str, str],
        count: int,
        resources: dict[str, float],
        labels: dict[str, str],
    ) -> None:
        """Raises NodeLaunchException where there is no capacity for all of them."""
        type = self._types[tags[TAG_RAY_USER_NODE_TYPE]]
        with self._lock:
            alive = [node for node in self._alive() if node.launch.type == type.name]
            room = self._room(type, self._now_ms()) - len(alive)
            for _ in range(min(count, room)):
                self._launch(type, tags)
        if count > room:
            words = f"no capacity for {type.name}: {type.market}{_in_zone(type)}"
            self._folder.note_failure(type.name, Failure(self._now_ms(), words))
            raise NodeLaunchException("NoCapacity", words, None)

    def terminate_node(self, node_id: str) -> None:
        node = self._folder.node(node_id)
        if node is None or node_id == HEAD:
            return
        why = "idle" if node.notice is None else node.notice.why
        self._folder.note_end(node_id, End(NodeState.GONE, why, self._now_ms()))
        _end(node, GRACE_S)

    def _alive(self) -> list[MachineNode]:
        return [node for node in self._folder.nodes() if node.is_alive]

    def _room(self, type: NodeType, now_ms: int) -> int:
        capacity = self._capacities.get(type.name)
        if capacity is None:
            return type.max
        elapsed_s = (now_ms - self.provider_config["started_ms"]) / 1000
        return min(type.max, capacity.at(elapsed_s, speed=type.capacity_speed))

    def _take_away(self, type: NodeType, capacity: CapacityTrace, now_ms: int) -> None:
        """Take away nodes that there is no capacity for any more, the newest first."""
        alive = [node for node in self._alive() if node.launch.type == type.name]
        for node in surplus(alive, self._room(type, now_ms)):
            why = f"{type.market} capacity{_in_zone(type)} was taken away"
            if type.notice_s:
                deadline_ms = now_ms + round(type.notice_s * 1000)
                self._folder.note_notice(node.launch.id, Notice(deadline_ms, why, now_ms))
                continue
            self._folder.note_end(node.launch.id, End(NodeState.LOST, why, now_ms))
            _end(node, 0.0)

    def _launch(self, type: NodeType, tags: dict[str, str]) -> None:
        id = f"{type.name}-{uuid4().hex[:8]}"
        self._folder.launch(Launch(id, type.name, tags, self._now_ms()))
        order = NodeOrder(
            id=id,
            folder=str(self._folder.path),
            gcs_address=self.provider_config["gcs_address"],
            node_ip=self.provider_config["node_ip"],
            temp_dir=self.provider_config["temp_dir"],
            object_store_mb=self.provider_config["object_store_mb"],
            resources=type.resources,
            labels=type.labels,
            spares=type.spares,
            notices=type.notices,
            notices_url=type.notices_url,
            variables=store_variables(type, self._weights / id),
        )
        child = self._start(order, self._folder.log_path(id), type.name)
        if child is not None:
            self._children.append(child)

    def _note_failed_starts(self) -> None:
        """The last word on each type: a node that ended before it was ready is a failure, and one
        that is ready ends all failures."""
        last = {node.launch.type: node for node in self._folder.nodes()}
        failures = self._folder.failures()
        for name, node in last.items():
            if node.raylet is not None and name in failures:
                if failures[name].at_ms < node.launch.at_ms:
                    self._folder.forget_failure(name)
            elif node.end is not None and node.end.state == NodeState.LOST and node.raylet is None:
                at_ms = failures[name].at_ms if name in failures else 0
                if at_ms < node.end.at_ms:
                    words = f"{node.launch.id} did not start: {self._last_words(node)}"
                    self._folder.note_failure(name, Failure(node.end.at_ms, words))

    def _last_words(self, node: MachineNode) -> str:
        path = self._folder.log_path(node.launch.id)
        lines = path.read_text(errors="replace").strip().splitlines() if path.exists() else []
        return lines[-1][:200] if lines else "it said nothing"

    def _forget_old(self) -> None:
        ended = [node for node in self._folder.nodes() if node.state in ENDED]
        for node in ended[:-ENDED_MAX]:
            self._folder.forget(node.launch.id)


def surplus(alive: Sequence[MachineNode], room: int) -> Sequence[MachineNode]:
    """Nodes, the oldest first -> those to take away, the newest first. Nodes that leave already
    make room."""
    staying = [node for node in alive if node.notice is None]
    return staying[room:][::-1]


def _started(order: NodeOrder, log_path: Path, type: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "workers.nodes.node", msgspec.json.encode(order).decode()]
    with open(log_path, "wb") as log:
        return subprocess.Popen(
            command,
            env=os.environ | {"RAY_CLOUD_INSTANCE_ID": order.id, "RAY_NODE_TYPE_NAME": type},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _end(node: MachineNode, grace_s: float) -> None:
    if node.process is not None:
        end_session(node.process.session, grace_s=grace_s)


def _in_zone(type: NodeType) -> str:
    return "" if type.zone is None else f" in {type.zone}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000  # noqa: TID251 composition root
