"""Gateways as processes of their own, beside a Redis and a database that the test has made."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import httpx2 as httpx
from redis.asyncio import Redis

from tests.gateway import edge
from tests.gateway.edge import API_KEY
from tests.nursery import Child, gateway_main
from tests.plain_http import NOBODY
from tests.redis_server import RedisServer

READY_WITHIN_S = 120.0
CONFIG = """
[gateway]
host = "{host}"
port = {port}
lease_s = 5.0
renew_s = 0.3
drain_s = 4.0

[gateway.idempotency]
lease_s = 5.0
settle_wait_s = 120.0

[[models]]
name = "tale"
context_tokens = 4096
max_output_tokens = 2048
size_rank = 1
quality = 0.5

[[pools]]
name = "tale-reserved"
model = "tale"
max_ongoing = 64
{more}
"""


class NotStarted(Exception):
    """The process ended instead; what it said is the message."""


async def started(
    data: Path,
    server: RedisServer,
    port: int,
    *,
    host: str = "127.0.0.1",
    sql: Path | None = None,
    more: str = "[bootstrap]",
) -> Child:
    """It listens. Raises NotStarted."""
    name = f"{host}-{port}"
    config, log = data / f"{name}.toml", data / f"{name}.log"
    config.write_text(CONFIG.format(host=host, port=port, more=more))
    environment = os.environ | {
        "SLUICE_CONFIG": str(config),
        "SLUICE_DATA": str(data),
        "SLUICE_REDIS_URL": server.url,
        "SLUICE_SQL_URL": f"sqlite:///{sql or data / 'sluice.db'}",
        "SLUICE_API_KEY": API_KEY,
        "SLUICE_ADMIN_KEY": "admin",
        "SLUICE_WORKER_SECRET": "worker-secret",
    }
    process = Child(gateway_main, env=environment)
    await process.start(log)
    async with asyncio.timeout(READY_WITHIN_S):
        line = await process.stdout.readline()
    if not line.startswith(b"ready gateway"):
        await ended([process])
        raise NotStarted(log.read_text())
    return process


async def ended(processes: Iterable[Child]) -> None:
    for process in processes:
        process.kill()
        await process.wait()


async def takes_calls(urls: Sequence[str]) -> None:
    """Wait until each gateway has recovered. Nobody publishes the fleet anew meanwhile, which takes
    longer than it may on a machine that is busy."""
    async with (
        httpx.AsyncClient(verify=NOBODY, timeout=30) as client,
        asyncio.timeout(READY_WITHIN_S),
    ):
        for url in urls:
            while not _is_ready(await client.get(f"{url}/readyz")):  # noqa: ASYNC110
                await asyncio.sleep(0.1)


def _is_ready(answer: httpx.Response) -> bool:
    return all(there for name, there in answer.json()["checks"].items() if name != "fleet")


async def publish_fleet(redis: Redis, address: str) -> None:
    now_ms = round(edge.time() * 1000)
    replica = {"id": "r1", "address": address, "state": "WARM", "since_ms": now_ms}
    pool = {"name": "tale-reserved", "target": 1, "replicas": [replica]}
    fleet = {"v": 1, "seq": 1, "at_ms": now_ms, "pools": [pool]}
    await redis.set("sluice:fleet", json.dumps(fleet))
