"""The nodes of this machine as files: one folder for each, in the folder of their cluster.

Every file is written once, by whoever knows it: the launch by the provider, the process by the node
itself, a notice by whoever takes the node away, the end by whoever sees it first. So a part that is
killed anywhere leaves nothing half written, and the next one reads on.
"""

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from workers.nodes.node_type import NodeState
from workers.ray.session import Session, end_session, has_leader

STARTS_WITHIN_MS = 60_000
"""A node whose process has not written its session by then was never started."""
T = TypeVar("T")


class Launch(msgspec.Struct, frozen=True):
    """`tags` are those of Ray's autoscaler."""

    id: str
    type: str
    tags: dict[str, str]
    at_ms: int


class Process(msgspec.Struct, frozen=True):
    session: Session


class Raylet(msgspec.Struct, frozen=True):
    """Ray's own id of the node, once it has registered."""

    pid: int
    node_id: str


class Notice(msgspec.Struct, frozen=True):
    """The node ends at `deadline_ms`. `at_ms`: when that was heard."""

    deadline_ms: int
    why: str
    at_ms: int


class End(msgspec.Struct, frozen=True):
    state: NodeState
    why: str
    at_ms: int


class Failure(msgspec.Struct, frozen=True):
    """The last launch of a type that did not come about."""

    at_ms: int
    words: str


class MachineNode(msgspec.Struct, frozen=True):
    """One node with all that is known of it."""

    launch: Launch
    process: Process | None
    raylet: Raylet | None
    notice: Notice | None
    end: End | None

    @property
    def state(self) -> NodeState:
        if self.end is not None:
            return self.end.state
        if self.notice is not None:
            return NodeState.DRAINING
        return NodeState.LAUNCHING if self.raylet is None else NodeState.READY

    @property
    def is_alive(self) -> bool:
        return self.end is None


class NodesFolder:
    """The folder of one cluster's nodes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def nodes(self) -> list[MachineNode]:
        """All that were launched and are not forgotten, the oldest first."""
        nodes = [node for path in self._paths() if (node := self._node(path)) is not None]
        return sorted(nodes, key=lambda node: (node.launch.at_ms, node.launch.id))

    def node(self, id: str) -> MachineNode | None:
        return self._node(self.path / id)

    def notices(self, known: Collection[str]) -> dict[str, Notice]:
        """By node, but for those that are known: a look that costs little."""
        paths = [path for path in self._paths() if path.name not in known]
        notices = {path.name: _read(path / "notice", Notice) for path in paths}
        return {id: notice for id, notice in notices.items() if notice is not None}

    def launch(self, launch: Launch) -> None:
        (self.path / launch.id).mkdir(parents=True)
        self._write(launch.id, "launch", launch)

    def note_process(self, id: str, process: Process) -> None:
        self._write(id, "process", process)

    def note_raylet(self, id: str, raylet: Raylet) -> None:
        self._write(id, "raylet", raylet)

    def note_notice(self, id: str, notice: Notice) -> None:
        self._write(id, "notice", notice)

    def note_end(self, id: str, end: End) -> None:
        self._write(id, "end", end)

    def note_failure(self, type: str, failure: Failure) -> None:
        _replace(self.path / f"{type}.failure", msgspec.json.encode(failure))

    def forget_failure(self, type: str) -> None:
        (self.path / f"{type}.failure").unlink(missing_ok=True)

    def failures(self) -> dict[str, Failure]:
        """By type."""
        paths = self.path.glob("*.failure")
        read = {path.stem: _read(path, Failure) for path in paths}
        return {type: failure for type, failure in read.items() if failure is not None}

    def log_path(self, id: str) -> Path:
        return self.path / id / "log"

    def forget(self, id: str) -> None:
        """Forget a node that has ended."""
        for path in (self.path / id).iterdir():
            path.unlink(missing_ok=True)
        (self.path / id).rmdir()

    def note_deaths(self, now_ms: int) -> None:
        """Write the end of each node whose process is gone without a word, and end what it left."""
        for node in self.nodes():
            if node.is_alive and _is_dead(node, now_ms):
                self.note_end(node.launch.id, End(NodeState.LOST, "its process ended", now_ms))
                if node.process is not None:
                    end_session(node.process.session, grace_s=0.0)

    def end_all(self, *, grace_s: float) -> int:
        """End the processes of all nodes. Returns how many there were."""
        sessions = [node.process.session for node in self.nodes() if node.process is not None]
        return sum(end_session(session, grace_s=grace_s) for session in sessions)

    def _paths(self) -> Iterator[Path]:
        if self.path.is_dir():
            yield from (path for path in self.path.iterdir() if path.is_dir())

    def _node(self, path: Path) -> MachineNode | None:
        launch = _read(path / "launch", Launch)
        if launch is None:
            return None
        return MachineNode(
            launch,
            _read(path / "process", Process),
            _read(path / "raylet", Raylet),
            _read(path / "notice", Notice),
            _read(path / "end", End),
        )

    def _write(self, id: str, name: str, value: msgspec.Struct) -> None:
        """Write a file whole, unless it is there already."""
        path = self.path / id / name
        if not path.exists():
            _replace(path, msgspec.json.encode(value))


def _is_dead(node: MachineNode, now_ms: int) -> bool:
    if node.process is None:
        return now_ms - node.launch.at_ms > STARTS_WITHIN_MS
    return not has_leader(node.process.session)


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
        return None


def _replace(path: Path, content: bytes) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_bytes(content)
    beside.replace(path)
