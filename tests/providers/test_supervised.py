"""The adapters as a part of `sluice up`: real processes of the database, the gateway and the
adapters, without workers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from billing.types import Usage
from gateway.supervisor.opening import wait_for_adapters
from gateway.supervisor.plan import parts
from gateway.supervisor.supervisor import Bounds, Supervisor
from tests.providers.fakes import fake_provider
from tests.redis_server import RedisServer
from tests.stack_process import OUTSIDE_KEY, OUTSIDE_KEY_VARIABLE, free_port

SETTINGS = """
[providers]
port = {port}

[[models]]
name = "story"
context_tokens = 4096
max_output_tokens = 512
size_rank = 1
quality = 0.5

[[prices]]
model = "story"
input_usd_per_mtok = "1"
cached_input_usd_per_mtok = "0.5"
output_usd_per_mtok = "2"
"""
USED = Usage(input=9, output=6)
API_KEY, ADMIN_KEY = "sk-sluice-0123456789abcdef", "admin-key"
ANSWER_S = 60.0


@dataclass
class Few:
    supervisor: Supervisor
    http: httpx.AsyncClient

    async def put(self, path: str, body: dict[str, Any]) -> None:
        headers = {"authorization": f"Bearer {ADMIN_KEY}"}
        response = await self.http.put(f"/admin/v1{path}", json=body, headers=headers)
        assert response.status_code == 200, response.text

    async def answer(self) -> dict[str, Any]:
        """Of the model, once its server is there."""
        messages = [{"role": "user", "content": "Tell."}]
        body = {"model": "story", "messages": messages, "max_tokens": 50}
        headers = {"authorization": f"Bearer {API_KEY}"}
        async with asyncio.timeout(ANSWER_S):
            while True:
                response = await self.http.post("/v1/chat/completions", json=body, headers=headers)
                if response.status_code == 200:
                    answer: dict[str, Any] = response.json()
                    return answer
                await asyncio.sleep(0.5)


@asynccontextmanager
async def running(server: RedisServer, folder: Path) -> AsyncIterator[Few]:
    """The parts but for those of workers; a fleet without replicas is published for them."""
    port = free_port()
    (folder / "sluice.toml").write_text(SETTINGS.format(port=port + 8))
    variables = {
        "SLUICE_CONFIG": str(folder / "sluice.toml"),
        "SLUICE_DATA": str(folder),
        "SLUICE_REDIS_URL": server.url,
        "SLUICE_SQL_URL": f"sqlite:///{folder / 'sluice.db'}",
        "SLUICE_GATEWAY__PORT": str(port),
        "SLUICE_ADMIN_KEY": ADMIN_KEY,
        "SLUICE_API_KEY": API_KEY,
        "SLUICE_WORKER_SECRET": "worker-secret",
        "PYTHONUNBUFFERED": "1",
        OUTSIDE_KEY_VARIABLE: OUTSIDE_KEY,
    }
    base_url = f"http://127.0.0.1:{port}"
    specs = parts(variables, None, lambda: wait_for_adapters(base_url, ADMIN_KEY, 0.2))
    few = {"migrate", "ledger", "gateway", "providers"}
    supervisor = Supervisor(
        [spec for spec in specs if spec.name in few],
        folder,
        bounds=replace(Bounds(), restart_backoff_s=0.1),
        say=lambda _: None,
        on_change=lambda _: None,
        now=time.monotonic,
    )
    ready, stop = asyncio.Event(), asyncio.Event()

    async def tell() -> None:
        ready.set()

    running = asyncio.create_task(supervisor.run(tell, stop))
    publishing = asyncio.create_task(_publish_fleet(server))
    try:
        await asyncio.wait_for(ready.wait(), 120)
        async with httpx.AsyncClient(base_url=base_url, timeout=60) as http:
            yield Few(supervisor, http)
    finally:
        publishing.cancel()
        stop.set()
        await running


async def _publish_fleet(server: RedisServer) -> None:
    client, seq = server.client(), 0
    while True:
        seq += 1
        fleet = {"v": 1, "seq": seq, "at_ms": round(time.time() * 1000), "pools": []}
        await client.set("sluice:fleet", json.dumps(fleet))
        await asyncio.sleep(0.3)


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_adapters_start_with_their_first_pool_and_again_after_their_death(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    async with (
        fake_provider("anthropic", USED) as fake,
        running(redis_server, tmp_path) as few,
    ):
        assert "providers" not in few.supervisor.running
        pool = {
            "model": "story",
            "capacity_class": "external",
            "adapter": "litellm",
            "base_url": fake.url,
            "upstream_model": "anthropic/claude-haiku-4-5",
            "api_key_env": OUTSIDE_KEY_VARIABLE,
        }
        await few.put("/pools/story", pool)
        pids = []
        for _ in range(2):
            answer = await few.answer()
            assert answer["usage"]["completion_tokens"] == USED.completion
            pids.append(few.supervisor.running["providers"].sid)
            _knows_no_store(pids[-1])
            for name in ("gateway", "providers"):
                process = psutil.Process(few.supervisor.running[name].sid)
                assert process.rlimit(psutil.RLIMIT_CORE) == (0, 0), "no core has a key"
            os.kill(pids[-1], signal.SIGKILL)
        assert pids[0] != pids[1]
        assert fake.headers[0]["x-api-key"] == OUTSIDE_KEY
    assert not any(psutil.pid_exists(pid) for pid in pids)


def _knows_no_store(pid: int) -> None:
    process = psutil.Process(pid)
    variables = process.environ()
    ours = {"SLUICE_SQL_URL", "SLUICE_REDIS_URL", "SLUICE_ADMIN_KEY", "SLUICE_WORKER_SECRET"}
    assert not ours & variables.keys()
    assert OUTSIDE_KEY not in " ".join(process.cmdline())
    assert not [file.path for file in process.open_files() if "sluice.db" in file.path]
