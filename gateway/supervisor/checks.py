"""What must hold before anything is started: a free port, enough memory, the models' files."""

import platform
import socket
import subprocess
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import psutil

from gateway.settings import ModelSettings, PoolSettings, Settings
from gateway.supervisor.errors import CannotStart
from workers.engines.names import ENGINE_NAMES, VLLM

CGROUP = Path("/sys/fs/cgroup")
MEGABYTE = 1_000_000
VERSIONS = (
    "import platform, importlib.metadata as m, importlib.util as u; assert u.find_spec('vllm');"
    "print(platform.python_version(), m.version('ray'))"
)
PROBE_TIMEOUT_S = 30.0


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


def check_vllm(settings: Settings) -> None:
    """Raises CannotStart if a pool needs vLLM and its environment is not there, or not fit for
    replicas of this cluster."""
    if not pools_on_vllm(settings):
        return
    python = settings.vllm.interpreter
    answer = (
        subprocess.run(
            [python, "-c", VERSIONS], capture_output=True, text=True, timeout=PROBE_TIMEOUT_S
        )
        if python.exists()
        else None
    )
    if answer is None or answer.returncode:
        raise CannotStart(
            f"engine vllm needs an environment of its own, and none is at {python}:"
            " make it with `make vllm`"
        )
    versions_here = f"{platform.python_version()} {version('ray')}"
    if answer.stdout.strip() != versions_here:
        raise CannotStart(
            f"{python} has Python and ray {answer.stdout.strip()}, this cluster {versions_here}:"
            " make it anew with `make vllm`"
        )


def memory_needed_mb(settings: Settings) -> int:
    """For the parts and the workers of the first minute; vLLM's are larger than others."""
    each_mb = settings.vllm.memory_mb + settings.vllm.kv_cache_mb
    replicas = sum(
        max(pool.initial_replicas, pool.min_replicas) for pool in pools_on_vllm(settings)
    )
    return settings.supervisor.memory_min_mb + replicas * each_mb


def pools_on_vllm(settings: Settings) -> list[PoolSettings]:
    generating = {model.name for model in settings.models if model.task == "generate"}
    return [
        pool
        for pool in settings.pools
        if pool.base_url is None
        and (pool.engine or settings.engine) == VLLM
        and pool.model in generating
    ]


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
