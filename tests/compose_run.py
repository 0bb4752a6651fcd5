"""The services of docker-compose.yml as processes of this machine: same commands, same environment.

What differs, and all of it: PostgreSQL and Redis are others and are found elsewhere, a volume is a
folder, the image's `python`, `sluice` and /app are this checkout's, and the gateway's port is free.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from tests.compose_file import PARTS, secret_names, services
from tests.postgres_server import PostgresServer
from tests.redis_server import BINARY as REDIS_BINARY
from tests.stack_config import ROOT
from tests.stack_process import environment, free_port, stop_with_parent
from workers.ray.file import read_ray_file
from workers.ray.session import end_session

T = TypeVar("T")
HEALTHY_S = 120.0
STOP_S = 40.0
LOOK_EVERY_S = 0.5


class ComposeRun:
    """Start all in the order they depend on each other, then stop all. A context manager."""

    def __init__(self) -> None:
        self.secrets = {name: os.urandom(12).hex() for name in secret_names()}
        self.services = services(self.secrets)
        self.port = free_port()
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", self.port))
            self._redis_port = free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="slc-", dir="/tmp"))
        self._postgres = PostgresServer(
            self._folder / "pg", password=self.secrets["POSTGRES_PASSWORD"]
        )
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._life = ExitStack()

    def __enter__(self) -> ComposeRun:
        try:
            self._life.callback(shutil.rmtree, self._folder, ignore_errors=True)
            self._life.enter_context(self._postgres)
            self._life.callback(self.stop)
            self._start_redis()
            self._await_health("redis")
            done = self.run("migrate", *self.services["migrate"]["command"])
            assert done.returncode == 0, done.stderr
            for part in PARTS:
                self._start(part, self._sluice(*self.services[part]["command"]))
                self._await_health(part)
        except BaseException:
            self._life.close()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        self._life.close()

    def stop(self) -> dict[str, int]:
        """SIGTERM to each, the last started first; answers the exit statuses."""
        ended = {}
        for name, process in reversed(list(self._running.items())):
            process.terminate()
            try:
                ended[name] = process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                ended[name] = process.wait()
        self._running.clear()
        left = read_ray_file(self._volume("workers") / "ray.json")
        if left is not None:
            end_session(left.session, grace_s=1.0)
        return ended

    def run(self, service: str, *words: str) -> subprocess.CompletedProcess[str]:
        """`docker compose run SERVICE WORDS`: `sluice WORDS` with the service's environment."""
        return subprocess.run(
            self._sluice(*words),
            cwd=ROOT,
            env=self._environment(service),
            capture_output=True,
            text=True,
            timeout=90,
        )

    def wait_until(self, look: Callable[[], T], timeout_s: float) -> T:
        """The first true answer of `look`."""
        deadline = time.monotonic() + timeout_s
        while not (found := look()):
            assert time.monotonic() < deadline, f"waited {timeout_s:g} s in vain"
            time.sleep(LOOK_EVERY_S)
        return found

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def sql_url(self) -> str:
        """For psycopg itself."""
        url = self._environment("ledger")["SLUICE_SQL_URL"]
        return url.replace("postgresql+psycopg://", "postgresql://")

    def _start_redis(self) -> None:
        program, *options = self.services["redis"]["command"]
        assert program == "redis-server"
        here = ["--bind", "127.0.0.1", "--port", str(self._redis_port)]
        folder = self._volume("redis")
        self._start("redis", [REDIS_BINARY, *options, *here, "--dir", str(folder)])

    def _start(self, service: str, argv: list[str]) -> None:
        with self._log(service).open("ab") as log:
            self._running[service] = subprocess.Popen(
                argv,
                cwd=ROOT,
                env=self._environment(service),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=stop_with_parent,
            )

    def _await_health(self, service: str) -> None:
        deadline = time.monotonic() + HEALTHY_S
        while not self._is_healthy(service):
            words = self._log(service).read_text(errors="replace")[-2000:]
            assert self._running[service].poll() is None, f"{service} ended:\n{words}"
            assert time.monotonic() < deadline, f"{service} is not healthy:\n{words}"
            time.sleep(LOOK_EVERY_S)

    def _is_healthy(self, service: str) -> bool:
        """What the service's own healthcheck says."""
        kind, *words = self.services[service]["healthcheck"]["test"]
        if kind == "CMD-SHELL":
            client = f"{Path(REDIS_BINARY).parent}/redis-cli -p {self._redis_port}"
            words = ["sh", "-c", words[0].replace("redis-cli", client)]
        elif words[0] == "python":
            words[0] = sys.executable
        told = subprocess.run(
            words, env=self._environment(service), capture_output=True, timeout=30
        )
        return told.returncode == 0

    def _environment(self, service: str) -> dict[str, str]:
        told: dict[str, Any] = self.services[service].get("environment", {})
        return environment() | {name: self._here(service, str(v)) for name, v in told.items()}

    def _here(self, service: str, value: str) -> str:
        """A value of the file, with the addresses and paths of a container made those of here."""
        if value == "/data":
            return str(self._volume(service))
        if value == "0.0.0.0":
            return "127.0.0.1"
        if value == "8080":
            return str(self.port)
        value = value.replace("@redis:6379/", f"@127.0.0.1:{self._redis_port}/")
        value = value.replace("/app/", f"{ROOT}/")
        if "@postgres:5432/" in value:
            folder = self._postgres.socket_folder
            value = value.replace("@postgres:5432/", "@/") + f"?host={folder}"
        return value

    def _volume(self, service: str) -> Path:
        """The folder that stands for /data: one for all who name the same volume. A volume mounted
        below it is a link."""
        mounts = dict(mount.split(":")[1::-1] for mount in self.services[service]["volumes"])
        folders = {place: self._folder / volume for place, volume in mounts.items()}
        for folder in folders.values():
            folder.mkdir(mode=0o700, exist_ok=True)
        data = folders.pop("/data")
        for place, folder in folders.items():
            link = data / place.removeprefix("/data/")
            if not link.exists():
                link.symlink_to(folder)
        return data

    def _log(self, service: str) -> Path:
        return self._folder / f"{service}.log"

    def _sluice(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "gateway.cli", *words]
