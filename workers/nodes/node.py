"""`python -m workers.nodes.node ORDER`: one node of this machine, in the foreground.

A raylet with its agents, as a session of processes of its own. It watches its own notice, as a
watcher on a rented machine does: a notice becomes Ray's drain with its deadline, and at the
deadline the node ends whatever still runs. It ends with the head of its cluster.
"""

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import msgspec
import psutil

from workers.nodes.folder import End, NodesFolder, NodeState, Notice, Process, Raylet
from workers.ray.session import members, session_of
from workers.ray.template_keeper import TemplateKeeper

LOOK_EVERY_S = 0.1


class NodeOrder(msgspec.Struct, frozen=True):
    """What a node is to be. `resources` and `labels` are Ray's."""

    id: str
    folder: str
    gcs_address: str
    node_ip: str
    temp_dir: str
    object_store_mb: int
    resources: dict[str, float]
    labels: dict[str, str]
    spares: int = 0


class RunningNode:
    """One raylet, from its start to its end."""

    def __init__(self, order: NodeOrder) -> None:
        self._order = order
        self._folder = NodesFolder(Path(order.folder))
        self._notice: Notice | None = None
        self._node: Any = None
        self._template: TemplateKeeper | None = None

    def run(self) -> NoReturn:
        self._folder.note_process(self._order.id, Process(session_of(os.getpid())))
        signal.signal(signal.SIGTERM, self._stop)
        if self._order.spares:
            starts = Path(self._order.temp_dir).parent / f"starts-{self._order.id}"
            self._template = TemplateKeeper(self._order.spares, str(starts))
        self._node = _raylet(self._order, self._template)
        process = self._node.all_processes["raylet"][0].process
        self._folder.note_raylet(self._order.id, Raylet(process.pid, self._node.node_id))
        print(f"ready node {self._order.id} raylet={process.pid}", flush=True)
        while True:
            time.sleep(LOOK_EVERY_S)
            if self._template is not None:
                self._template.mend()
            self._look(process.poll())

    def _look(self, code: int | None) -> None:
        if code is not None:
            leaves = self._notice is not None or code == 0
            why = self._notice.why if self._notice else "idle" if leaves else f"exit code {code}"
            self._end(NodeState.GONE if leaves else NodeState.LOST, why)
        if not Path(self._order.folder).is_dir():
            self._end(NodeState.GONE, "its cluster ended")
        node = self._folder.node(self._order.id)
        if node is not None and node.notice is not None and self._notice is None:
            self._notice = node.notice
            self._drain(node.notice)
        if self._notice is not None and _now_ms() >= self._notice.deadline_ms:
            self._end(NodeState.LOST, self._notice.why)

    def _drain(self, notice: Notice) -> None:
        """Tell Ray what comes: no new replica here, and others in place of those that are."""
        from ray.core.generated import autoscaler_pb2

        accepted, why_not = self._node.get_gcs_client().drain_node(
            self._node.node_id,
            autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION"),
            notice.why,
            notice.deadline_ms,
        )
        print(f"drain: {notice.why}" if accepted else f"drain refused: {why_not}", flush=True)

    def _stop(self, signum: int, frame: FrameType | None) -> None:
        self._end(NodeState.GONE, "stopped")

    def _end(self, state: NodeState, why: str) -> NoReturn:
        """End everything of the session, this process last."""
        with suppress(OSError):
            self._folder.note_end(self._order.id, End(state, why, _now_ms()))
        for process in members(session_of(os.getpid())):
            if process.pid != os.getpid():
                with suppress(psutil.Error):
                    process.kill()
        os._exit(0)


def _raylet(order: NodeOrder, template: TemplateKeeper | None) -> Any:
    """A started raylet that has registered. Ray's own `Node` is private, so it is pinned with
    Ray."""
    from ray._private.node import Node
    from ray._private.parameter import RayParams
    from ray._private.resource_isolation_config import ResourceIsolationConfig

    resources = dict(order.resources)
    params = RayParams(
        gcs_address=order.gcs_address,
        node_ip_address=order.node_ip,
        temp_dir=order.temp_dir,
        num_cpus=resources.pop("CPU", 0),
        num_gpus=resources.pop("GPU", 0),
        memory=resources.pop("memory", None),
        resources=resources,
        labels=order.labels,
        object_store_memory=order.object_store_mb * 1_000_000,
        min_worker_port=0,
        max_worker_port=0,
        dashboard_agent_listen_port=0,
        include_log_monitor=False,
        worker_path=None if template is None else template.worker_path,
        resource_isolation_config=ResourceIsolationConfig(enable_resource_isolation=False),
    )
    return Node(params, head=False, shutdown_at_exit=False, spawn_reaper=False)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000  # noqa: TID251 composition root


def main() -> NoReturn:
    RunningNode(msgspec.json.decode(sys.argv[1], type=NodeOrder)).run()


if __name__ == "__main__":
    main()
