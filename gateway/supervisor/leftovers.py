"""What a killed `sluice up` left running: recorded in DATA/parts.json, ended by the next one.

Every part leads a session, known by its leader's pid and start time; a process leaves its session
only on purpose, so the session finds what a part left behind even when the part itself is gone.
Ray has a session of its own, which `workers.ray.launch` records in DATA/ray.json.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from gateway.supervisor.latest_file import KeptFile, Say
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
    sessions = _recorded(data / FILE)
    if (ray := read_ray_file(data / RAY_FILE)) is not None:
        sessions["ray"] = ray.session
    return [name for name in reversed(sessions) if end_session(sessions[name], grace_s=GRACE_S)]


def _recorded(path: Path) -> dict[str, Session]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Session])
    except (FileNotFoundError, msgspec.MsgspecError):
        return {}
