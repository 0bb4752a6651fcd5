"""`python -m workers.nodes.node ORDER`: one node of this machine, in the foreground.

A raylet with its agents, as a session of processes of its own. It watches its own notice, whoever
writes it: a person's drain, a trace of capacity, or the watcher of a cloud's notices beside it. The
notice becomes Ray's drain with its deadline, and at the deadline the node ends whatever still runs.
It ends with the head of its cluster.
"""

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import msgspec
import psutil

from workers.nodes.folder import End, NodesFolder, Notice, Process, Raylet
from workers.nodes.node_type import NodeState
from workers.notices.keeper import WatcherKeeper
from workers.notices.order import WatchOrder
from workers.ray.session import members, session_of

if TYPE_CHECKING:
    from workers.nodes.raylet import MachineRaylet
    from workers.ray.template_keeper import TemplateKeeper

LOOK_EVERY_S = 0.1
LOOK_LEAVING_S = 0.5
"""While it drains: then all processes are looked at."""
REPLICA_TITLE = "ray::ServeReplica:"


class NodeOrder(msgspec.Struct, frozen=True):
    """What a node is to be. `resources` and `labels` are Ray's. `variables` are of all its
    processes."""

    id: str
    folder: str
    gcs_address: str
    node_ip: str
    temp_dir: str
    object_store_mb: int
    resources: dict[str, float]
    labels: dict[str, str]
    spares: int = 0
    notices: str | None = None
    notices_url: str | None = None
    variables: dict[str, str] = {}


class RunningNode:
    """One raylet, from its start to its end."""

    def __init__(self, order: NodeOrder) -> None:
        self._order = order
        self._folder = NodesFolder(Path(order.folder))
        self._notice: Notice | None = None
        self._template: TemplateKeeper | None = None
        self._watcher: WatcherKeeper | None = None

    def run(self) -> NoReturn:
        self._folder.note_process(self._order.id, Process(session_of(os.getpid())))
        signal.signal(signal.SIGTERM, self._stop)
        try:
            raylet = self._start()
            while True:
                if self._template is not None:
                    self._template.mend()
                if self._watcher is not None:
                    self._watcher.mend()
                self._look(raylet)
                time.sleep(LOOK_EVERY_S if self._notice is None else LOOK_LEAVING_S)
        except Exception as wrong:
            print(f"{type(wrong).__name__}: {wrong}", flush=True)
            self._end(NodeState.LOST, str(wrong))

    def _start(self) -> "MachineRaylet":
        # Not at the top: Ray takes a second, and the session is written before that.
        from workers.nodes.raylet import start_raylet
        from workers.ray.template_keeper import template_keeper

        order = self._order
        os.environ |= order.variables
        starts = Path(order.temp_dir).parent / f"starts-{order.id}"
        self._template = template_keeper(order.spares, str(starts))
        raylet = start_raylet(
            name=order.id.rsplit("-", 1)[-1],
            gcs_address=order.gcs_address,
            node_ip=order.node_ip,
            temp_dir=order.temp_dir,
            object_store_mb=order.object_store_mb,
            resources=order.resources,
            labels=order.labels,
            worker_path=None if self._template is None else self._template.worker_path,
        )
        self._folder.note_raylet(order.id, Raylet(raylet.raylet.pid, raylet.node_id))
        self._watcher = _watcher(order)
        print(f"ready node {order.id} raylet={raylet.raylet.pid}", flush=True)
        return raylet

    def _look(self, raylet: "MachineRaylet") -> None:
        if (code := raylet.exit_code()) is not None:
            leaves = self._notice is not None or code == 0
            why = self._notice.why if self._notice else "idle" if leaves else f"exit code {code}"
            self._end(NodeState.GONE if leaves else NodeState.LOST, why)
        if not Path(self._order.folder).is_dir():
            self._end(NodeState.GONE, "its cluster ended")
        node = self._folder.node(self._order.id)
        if node is not None and node.notice is not None and self._notice is None:
            self._notice = node.notice
            why_not = raylet.drain(node.notice.why, node.notice.deadline_ms)
            print(f"drain: {node.notice.why} {why_not}", flush=True)
        if self._notice is not None and _now_ms() >= self._notice.deadline_ms:
            self._end(NodeState.LOST, self._notice.why)
        if self._notice is not None and not _has_replicas():
            self._end(NodeState.GONE, self._notice.why)

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


def _watcher(order: NodeOrder) -> WatcherKeeper | None:
    """Of its cloud's notices, where it has one."""
    if order.notices is None:
        return None
    return WatcherKeeper(WatchOrder(order.id, order.folder, order.notices, order.notices_url))


def _has_replicas() -> bool:
    """Whether a replica runs here. Ray's raylet goes by itself when it is drained and idle, but it
    counts more as work than that."""
    for process in members(session_of(os.getpid())):
        with suppress(psutil.Error):
            if "".join(process.cmdline()[:1]).startswith(REPLICA_TITLE):
                return True
    return False


def _now_ms() -> int:
    return time.time_ns() // 1_000_000  # noqa: TID251 composition root


def main() -> NoReturn:
    RunningNode(msgspec.json.decode(sys.argv[1], type=NodeOrder)).run()


if __name__ == "__main__":
    main()
