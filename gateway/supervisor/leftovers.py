"""What a killed `sluice up` left running: recorded in DATA/parts.json, ended by the next one.

Every part leads a session, known by its leader's pid and start time; a process leaves its session
only on purpose, so the session finds what a part left behind even when the part itself is gone.
Ray has sessions of its own, of its head and of each node, which DATA/ray.json leads to.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from gateway.supervisor.latest_file import KeptFile, Say
from workers.ray.cluster import end_cluster
from workers.ray.file import read_ray_file
from workers.ray.session import Session, end_session

FILE = "parts.json"
RAY_FILE = "ray.json"
GRACE_S = 3.0


class Record:
    """The running parts. Those of a moment ago are better than none: a session that has ended since
    is not found by the next `sluice up`, and harms nobody."""

    def __init__(self, data: Path, say: Say) -> None:
        self._file = KeptFile(data / FILE, say)

    def write(self, parts: Mapping[str, Session]) -> None:
        self._file.write(msgspec.to_builtins(parts))

    def retry(self) -> None:
        self._file.retry()

    def remove(self) -> None:
        """Once all have stopped."""
        self._file.remove()


def end_leftovers(data: Path) -> list[str]:
    """End whatever is recorded and still runs; returns the names of the parts it belonged to."""
    ray = read_ray_file(data / RAY_FILE)
    ended = ["ray"] if ray is not None and end_cluster(ray, grace_s=GRACE_S) else []
    sessions = _recorded(data / FILE)
    return [
        *ended,
        *(name for name in reversed(sessions) if end_session(sessions[name], grace_s=GRACE_S)),
    ]


def _recorded(path: Path) -> dict[str, Session]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Session])
    except (FileNotFoundError, msgspec.MsgspecError):
        return {}
