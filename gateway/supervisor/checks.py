"""What must hold before anything is started: a free port, enough memory, the models' files."""

import socket
from collections.abc import Sequence
from pathlib import Path

import psutil

from gateway.settings import ModelSettings
from gateway.supervisor.errors import CannotStart
from workers.engines.names import ENGINE_NAMES

CGROUP = Path("/sys/fs/cgroup")
MEGABYTE = 1_000_000


def check_port(host: str, port: int) -> None:
    """Raises CannotStart if nothing could listen on this address now."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as taken:
        raise CannotStart(
            f"cannot listen on {host}:{port}: {taken.strerror}; choose another with --port"
        ) from taken


def check_memory(free_bytes: int, min_mb: int) -> None:
    """Raises CannotStart if less is free than the parts need."""
    if free_bytes < min_mb * MEGABYTE:
        raise CannotStart(
            f"{free_bytes // MEGABYTE} MB of memory are free, {min_mb} MB are needed; free some,"
            " or lower supervisor.memory_min_mb and the number of pools"
        )


def check_engine(name: str) -> None:
    """Raises CannotStart if no engine has this name."""
    if name not in ENGINE_NAMES:
        raise CannotStart(f"no engine named {name}; there are: {', '.join(ENGINE_NAMES)}")


def check_models(models: Sequence[ModelSettings]) -> None:
    """Raises CannotStart if a checkpoint folder is not where the settings say."""
    for model in models:
        if model.path is not None and not (Path(model.path) / "config.json").is_file():
            raise CannotStart(f"model {model.name}: no checkpoint folder at {model.path}")


def free_memory_bytes(cgroup: Path = CGROUP) -> int:
    """What the machine can still give, or the container if its limit is tighter."""
    free: int = psutil.virtual_memory().available
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        if limit == "max":
            return free
        stat = dict(line.split() for line in (cgroup / "memory.stat").read_text().splitlines())
        used = int((cgroup / "memory.current").read_text()) - int(stat["inactive_file"])
    except (OSError, ValueError, KeyError):
        return free  # no cgroup v2 here
    return min(free, max(0, int(limit) - used))
