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

from gateway.catalog.tokenizers import CheckpointTokens
from tests.workers.deployments.asgi import SECRET
from workers.deployments.parts import parts_named
from workers.deployments.server import WorkerServer
from workers.engines.base import EngineSettings

MODEL_PATH = Path(__file__).parents[3] / "models" / "sluice-small"
HEADERS = {"x-sluice-worker-secret": SECRET}


@pytest_asyncio.fixture
async def worker() -> AsyncIterator[aiohttp.ClientSession]:
    parts = parts_named("continuous", EngineSettings(MODEL_PATH, slots=4))
    app = WorkerServer(
        engine=parts.engine,
        doors=parts.doors,
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
        while (now := await stats(worker))["gauges"]["kv_tokens_used"]:  # noqa: ASYNC110 over HTTP
            await asyncio.sleep(0.01)
    assert now["tokens_out_total"] < 900


async def text_of(worker: aiohttp.ClientSession, index: int, **fields: object) -> str:
    async with worker.post("/v1/completions", json=fields) as reply:
        assert reply.status == 200, await reply.text()
        *frames, done = await events(reply)
    assert done == "[DONE]"
    choices = [json.loads(frame)["choices"][0] for frame in frames]
    return "".join(each["delta"]["content"] for each in choices if each["index"] == index)


async def test_each_sample_is_the_answer_to_its_own_seed(worker: aiohttp.ClientSession) -> None:
    asked = {"max_tokens": 12, "temperature": 2, "sluice": {"request_id": "req_1"}}
    prompts = ["The gate", "A river"]
    together = {"prompt": prompts, "n": 3, "seed": 5} | asked
    alone = [
        await text_of(worker, 0, prompt=[prompt], seed=5 + sample, **asked)
        for prompt in prompts
        for sample in range(3)
    ]
    assert [await text_of(worker, index, **together) for index in range(6)] == alone
    assert len(set(alone)) > 1


async def test_many_sequences_are_counted_exactly_and_have_log_probabilities(
    worker: aiohttp.ClientSession,
) -> None:
    counted = [
        CheckpointTokens(MODEL_PATH).text_ids(text) for text in ("The gate<|end|>", "a 🚣 b")
    ]
    body = {
        "prompt": ["The gate<|end|>", counted[1]],
        "n": 2,
        "max_tokens": 7,
        "logprobs": 2,
        "sluice": {"request_id": "req_1"},
    }
    async with worker.post("/v1/completions", json=body) as reply:
        frames = [json.loads(event) for event in (await events(reply))[:-1]]
    for frame in frames:
        entries = frame["choices"][0]["logprobs"]["content"]
        assert len(entries) == len(frame["sluice"]["token_ids"])
        assert all(len(entry["top_logprobs"]) == 2 for entry in entries)
    last = frames[-1]["sluice"]
    assert last["usage"]["input"] + last["usage"]["cached_input"] == sum(map(len, counted))
    tokens = sum(len(frame["sluice"]["token_ids"]) for frame in frames)
    assert tokens == last["position"] == last["usage"]["output"] <= 4 * 7


async def test_leaving_a_call_of_several_sequences_stops_them_all(
    worker: aiohttp.ClientSession,
) -> None:
    body = {
        "prompt": ["The gate"],
        "n": 6,
        "max_tokens": 900,
        "temperature": 2,
        "sluice": {"request_id": "req_1"},
    }
    async with worker.post("/v1/completions", json=body) as reply:
        await reply.content.readuntil(b"\n\n")
        reply.close()
    async with asyncio.timeout(30):
        while (now := await stats(worker))["running"] + now["gauges"]["kv_tokens_used"]:  # noqa: ASYNC110 over HTTP
            await asyncio.sleep(0.01)
    assert now["tokens_out_total"] < 6 * 900
