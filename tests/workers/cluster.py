"""A private Ray cluster, Redis and controllers as real processes, with a gateway's view of them.

Everything is started by the commands that `sluice up` uses. `Fleet` does what a gateway does:
publishes the catalog, waits in the waiting room, reads the snapshot, calls warm replicas.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import psutil
from redis.asyncio import Redis

from tests.redis_server import RedisServer
from tests.workers.published import published_model, published_pool
from workers.controller.fleet_publisher import FLEET_KEY, Fleet, NodeEntry, PoolEntry
from workers.controller.queue import WaitingRoom
from workers.ray.file import RayFile, read_ray_file
from workers.ray.session import Session, members
from workers.writer.writes import HIGHEST_PATH, SECRET_HEADER, Leader

ROOT = Path(__file__).parent.parent.parent
SECRET = "the-workers-secret"
TOKEN = "0123456789abcdef0123456789abcdef"
GUESSED_START_S = 600.0
"""Longer than any start."""
PATIENCE_S = 120.0
"""Of every wait for the cluster. It is long, because a slow machine starts a replica in half a
minute."""


class Part:
    """One process of the product, known to be ready by the line that it prints."""

    def __init__(self, module: str, env: dict[str, str], log: Path, *arguments: str) -> None:
        self.log = log
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env=os.environ | env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log.open("ab"),
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def await_ready(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().decode()
        assert line.startswith("ready "), f"{line!r}: {self.log.read_text()[-2000:]}"
        return line

    def end(self, signum: int = signal.SIGTERM) -> int:
        if self._process.poll() is None:
            self._process.send_signal(signum)
        return self._process.wait(PATIENCE_S)

    def signal(self, signum: int) -> None:
        self._process.send_signal(signum)

    def wait(self, timeout_s: float) -> int:
        return self._process.wait(timeout=timeout_s)


class Cluster:
    """Processes of one test session, in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.redis = RedisServer(folder)
        self.launcher: Part | None = None
        self.controllers: list[Part] = []
        self.env = {
            "SLUICE_DATA": str(folder / "data"),
            "SLUICE_REDIS_URL": self.redis.url,
            "SLUICE_WORKER_SECRET": SECRET,
            "RAY_AUTH_TOKEN": TOKEN,
            "SLUICE_RAY__NUM_CPUS": "4",
            "SLUICE_RAY__SPARES": "0",
            "SLUICE_CONTROLLER__IMPORT_PATH": "tests.workers.tiny_worker:build",
            "SLUICE_CONTROLLER__LEASE_TTL_S": "1.5",
            "SLUICE_CONTROLLER__BACKOFF_S": "2",
        }

    def start(self) -> None:
        self.redis.start()
        self.launch()
        self.control()

    def launch(self) -> None:
        self.launcher = Part("workers.ray.launch", self.env, self.folder / "launch.log")
        self.launcher.await_ready()

    def control(self) -> Part:
        part = Part("workers.controller", self.env, self.folder / "controller.log")
        part.await_ready()
        self.controllers.append(part)
        return part

    @property
    def ray_file(self) -> RayFile:
        file = read_ray_file(self.folder / "data" / "ray.json")
        assert file is not None
        return file

    def dashboard(self) -> aiohttp.ClientSession:
        """Ray's own, as anybody uses it who has the token."""
        headers = {"authorization": f"Bearer {TOKEN}"}
        return aiohttp.ClientSession(
            self.ray_file.dashboard_url, headers=headers, raise_for_status=True
        )

    async def highest_leader(self) -> Leader:
        """As the writer has it."""
        url, headers = self.ray_file.writer_url + HIGHEST_PATH, {SECRET_HEADER: SECRET}
        async with aiohttp.ClientSession(headers=headers) as http, http.get(url) as reply:
            return msgspec.json.decode(await reply.read(), type=Leader)

    def processes(self) -> dict[str, int]:
        """Every process of the Ray session by name, for killing one of them."""
        return {p.name(): p.pid for p in members(self.ray_file.session)}

    def stop(self) -> list[psutil.Process]:
        """End everything; answers what is still there."""
        session: Session | None = None
        if self.launcher is not None:
            session = self.ray_file.session if (self.folder / "data/ray.json").exists() else None
            self.launcher.end()
        for part in self.controllers:
            part.end()
        self.redis.kill9()
        return [] if session is None else members(session)


def pool(name: str, **fields: Any) -> dict[str, Any]:
    usual = {"num_cpus": 0.1, "idle_s": 600.0, "max_ongoing": 16, "cold_start_s": GUESSED_START_S}
    return published_pool(**{"name": name, "model": "m"} | usual | fields)


class Gateway(AbstractAsyncContextManager["Gateway"]):
    """What a gateway is to the workers: the other end of Redis, and their HTTP client."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.redis: Redis = cluster.redis.client()
        self.room = WaitingRoom(self.redis)
        self._revision = 0

    async def __aenter__(self) -> "Gateway":
        self._http = aiohttp.ClientSession(headers={"x-sluice-worker-secret": SECRET})
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._http.close()
        await self.redis.aclose()

    async def publish(self, *pools: dict[str, Any], path: str = "/models/m") -> None:
        """The catalog of these pools; `path` is that of the model they have unless they say."""
        folders = {"m": path, "b": "/models/broken"}
        models = [published_model(name=name, path=folder) for name, folder in folders.items()]
        await self.publish_models(models, *pools)

    async def publish_models(self, models: list[dict[str, Any]], *pools: dict[str, Any]) -> None:
        self._revision += 1
        catalog = {"revision": self._revision, "models": models, "pools": pools}
        await self.redis.set("sluice:catalog", msgspec.json.encode(catalog))

    async def fleet(self) -> Fleet | None:
        raw = await self.redis.get(FLEET_KEY)
        return None if raw is None else msgspec.json.decode(raw, type=Fleet)

    async def pool(self, name: str) -> PoolEntry | None:
        fleet = await self.fleet()
        pools = () if fleet is None else fleet.pools
        return next((p for p in pools if p.name == name), None)

    async def until_nodes(self, holds: Callable[[tuple[NodeEntry, ...]], bool]) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while (fleet := await self.fleet()) is None or not holds(fleet.nodes):
            assert time.monotonic() < deadline_s, fleet and fleet.nodes
            await asyncio.sleep(0.02)

    async def next_controller(self, controller: str) -> Fleet:
        """The first snapshot that another controller published."""
        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s:
            fleet = await self.fleet()
            if fleet is not None and fleet.controller != controller:
                return fleet
            await asyncio.sleep(0.02)
        raise AssertionError(f"{controller} still leads")

    async def until(
        self, name: str, holds: Callable[[PoolEntry], bool], timeout_s: float = PATIENCE_S
    ) -> PoolEntry:
        """The first snapshot of the pool that satisfies `holds`."""
        seen = None
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            seen = await self.pool(name)
            if seen is not None and holds(seen):
                return seen
            await asyncio.sleep(0.02)
        log = (self.cluster.folder / "controller.log").read_text()[-3000:]
        raise AssertionError(f"still {seen} after {timeout_s} s\n{log}")

    async def call(self, name: str, rid: str, *, until: Path | None = None) -> dict[str, Any]:
        """One call, held as long as it takes; a refusal before any work sends it back to wait.
        The worker works until the file `until` exists."""
        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s:
            entry = await self.pool(name)
            warm = [] if entry is None else [r for r in entry.replicas if r.state == "WARM"]
            answer = await self._try(warm[0].address, until) if warm else None
            if answer is not None:
                await self.room.leave(name, rid)
                return answer
            await self.room.enter(name, rid, wait_ms=round(PATIENCE_S * 1000))
            await asyncio.sleep(0.1)
        raise AssertionError(f"call {rid} was lost: {entry}")

    async def _try(self, address: str, until: Path | None) -> dict[str, Any] | None:
        body = {"until": None if until is None else str(until)}
        try:
            async with self._http.post(f"{address}/v1/chat/completions", json=body) as reply:
                if reply.status == 503:
                    return None
                assert reply.status == 200, await reply.text()
                answer: dict[str, Any] = await reply.json()
                return answer
        except aiohttp.ClientConnectorError:
            return None
