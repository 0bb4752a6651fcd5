"""The worker as it is deployed, but for Ray: uvicorn, a socket, and an engine on a real
checkpoint."""

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest_asyncio
import uvicorn

from tests.workers.deployments.asgi import SECRET
from workers.deployments.server import WorkerServer
from workers.engines.base import EngineSettings
from workers.engines.chat import TemplateChat
from workers.engines.continuous.engine import ContinuousEngine

MODEL_PATH = Path(__file__).parents[3] / "models" / "sluice-small"
HEADERS = {"x-sluice-worker-secret": SECRET}


@pytest_asyncio.fixture
async def worker() -> AsyncIterator[aiohttp.ClientSession]:
    app = WorkerServer(
        engine=ContinuousEngine(EngineSettings(MODEL_PATH, slots=4)),
        chat=TemplateChat(MODEL_PATH),
        secret=SECRET,
        now_s=time.monotonic,
    )
    server = uvicorn.Server(uvicorn.Config(app, lifespan="on", log_config=None))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        serving = asyncio.create_task(server.serve([listener]))
        base_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with aiohttp.ClientSession(base_url, headers=HEADERS) as session:
            while not server.started:  # noqa: ASYNC110 uvicorn offers no event
                await asyncio.sleep(0.01)
            yield session
        server.should_exit = True
        await serving


def chat(request_id: str, **fields: object) -> dict[str, Any]:
    return {
        "messages": [{"role": "user", "content": "Tell me about the gate."}],
        "temperature": 0,
        "sluice": {"request_id": request_id, "cache_salt": "org_1"},
    } | fields


async def events(reply: aiohttp.ClientResponse) -> list[Any]:
    lines = (await reply.read()).decode().split("\n\n")
    return [line.removeprefix("data: ") for line in lines if line]


async def stats(worker: aiohttp.ClientSession) -> dict[str, Any]:
    async with worker.get("/v1/sluice/stats") as reply:
        return dict(await reply.json())


async def test_callers_stream_side_by_side_and_are_counted_exactly(
    worker: aiohttp.ClientSession,
) -> None:
    async def call(number: int) -> list[Any]:
        body = chat(f"req_{number}", max_tokens=5 + number)
        async with worker.post("/v1/chat/completions", json=body) as reply:
            assert reply.status == 200
            return await events(reply)

    for number, answer in enumerate(await asyncio.gather(*map(call, range(6)))):
        *frames, done = answer
        assert done == "[DONE]"
        last = json.loads(frames[-1])
        counted = sum(len(json.loads(frame)["sluice"]["token_ids"]) for frame in frames)
        assert counted == last["sluice"]["position"] == last["sluice"]["usage"]["output"]
        assert counted == 5 + number or last["choices"][0]["finish_reason"] == "stop"


async def test_a_client_that_hangs_up_stops_the_engine(worker: aiohttp.ClientSession) -> None:
    body = chat("req_1", max_tokens=900, temperature=2, seed=1)
    async with worker.post("/v1/chat/completions", json=body) as reply:
        await reply.content.readuntil(b"\n\n")
        reply.close()
    async with asyncio.timeout(30):
        while (now := await stats(worker))["kv_used"]:  # noqa: ASYNC110 over HTTP
            await asyncio.sleep(0.01)
    assert now["tokens_out_total"] < 900
