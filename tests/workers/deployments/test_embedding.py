"""A worker that embeds, on the real model."""

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from gateway.catalog.tokenizers import CheckpointTokens
from tests.workers.deployments.asgi import SECRET, Clock, Visit
from tests.workers.engines.embedding.conftest import MINILM_PATH
from workers.deployments.bodies import INPUTS_MAX
from workers.deployments.parts import parts_named
from workers.deployments.server import WorkerServer
from workers.engines.base import EngineSettings

EMBEDDINGS = "/v1/embeddings"
TEXTS = ["A gate that meters water.", "水は百度で沸騰する。", "a", "long " * 100]


@pytest_asyncio.fixture
async def server() -> AsyncIterator[WorkerServer]:
    parts = parts_named("embedding", EngineSettings(MINILM_PATH, batch_tokens_max=128))
    await parts.engine.start()
    yield WorkerServer(engine=parts.engine, doors=parts.doors, secret=SECRET, now_s=Clock())
    await parts.engine.stop()


def body(**fields: object) -> dict[str, object]:
    return {"input": TEXTS, "sluice": {"request_id": "req_1"}} | fields


def vectors(visit: Visit) -> dict[int, Any]:
    choices = [choice for event in visit.events()[:-1] for choice in event["choices"]]
    assert all(choice["finish_reason"] == "stop" for choice in choices)
    found = {c["index"]: np.frombuffer(b64decode(c["embedding"]), "<f4") for c in choices}
    assert len(found) == len(choices)
    return found


async def stats(server: WorkerServer) -> Any:
    return (await Visit(server, "GET", "/v1/sluice/stats").end()).json()


async def test_every_input_has_a_vector_and_the_count_is_the_gateways(
    server: WorkerServer,
) -> None:
    visit = await Visit(server, "POST", EMBEDDINGS, body()).end()
    assert visit.status == 200
    assert visit.events()[-1] == "[DONE]"
    found = vectors(visit)
    assert sorted(found) == [0, 1, 2, 3]
    assert all(abs(np.linalg.norm(each) - 1) < 1e-5 for each in found.values())
    counted = sum(len(CheckpointTokens(MINILM_PATH).text_ids(text)) for text in TEXTS)
    said = visit.events()[-2]["sluice"]
    assert said.pop("busy_us") > 0
    assert said == {
        "v": 1,
        "position": 0,
        "token_ids": [],
        "usage": {"input": counted, "cached_input": 0, "output": 0},
    }
    assert len(visit.events()) > 2  # a batch does not wait for the next one


async def test_token_ids_are_taken_as_they_are(server: WorkerServer) -> None:
    ids = CheckpointTokens(MINILM_PATH).text_ids(TEXTS[0])
    visit = await Visit(server, "POST", EMBEDDINGS, body(input=[TEXTS[0], ids])).end()
    one, other = vectors(visit).values()
    assert abs(one - other).max() < 1e-5


async def test_fewer_dimensions_are_as_many(server: WorkerServer) -> None:
    visit = await Visit(server, "POST", EMBEDDINGS, body(dimensions=64)).end()
    for each in vectors(visit).values():
        assert each.shape == (64,)
        assert abs(np.linalg.norm(each) - 1) < 1e-5


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"input": []}, "invalid_prompt", "input"),
        ({"input": [[]]}, "invalid_prompt", "input"),
        ({"input": [[-1]]}, "invalid_prompt", "input"),
        ({"input": [[10**30]]}, "invalid_prompt", "input"),
        ({"input": ["fine", "word " * 255]}, "context_length_exceeded", "input"),
        ({"input": "text"}, "invalid_body", None),
        ({"input": ["a"] * (INPUTS_MAX + 1)}, "invalid_body", None),
        ({"dimensions": 0}, "invalid_body", None),
        ({"dimensions": 385}, "unsupported_parameter", "dimensions"),
    ],
)
async def test_what_cannot_be_embedded_is_refused_whole(
    server: WorkerServer, fields: dict[str, object], code: str, param: str | None
) -> None:
    visit = await Visit(server, "POST", EMBEDDINGS, body(**fields)).end()
    error = visit.json()["error"]
    assert (visit.status, error["code"], error["param"]) == (400, code, param)
    assert (await stats(server))["requests_total"] == 0


async def test_the_longest_input_that_fits_is_not_cut(server: WorkerServer) -> None:
    visit = await Visit(server, "POST", EMBEDDINGS, body(input=["word " * 254])).end()
    assert visit.events()[0]["sluice"]["usage"]["input"] == 256


async def test_a_client_that_leaves_is_no_longer_computed_for(server: WorkerServer) -> None:
    many = body(input=["word " * 60] * 400)
    visit = Visit(server, "POST", EMBEDDINGS, many)
    await visit.until_parts(1)
    assert (await stats(server))["running"] == 1
    again = await Visit(server, "POST", EMBEDDINGS, many).end()
    assert (again.status, again.json()["error"]["code"]) == (409, "request_in_flight")
    visit.leave()
    await visit.end()
    assert (await stats(server))["running"] == (await stats(server))["queued"] == 0
    assert "[DONE]" not in visit.events()


async def test_a_call_that_the_server_cancels_is_closed_too(server: WorkerServer) -> None:
    visit = Visit(server, "POST", EMBEDDINGS, body(input=["word " * 60] * 400))
    await visit.until_parts(1)
    visit.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await visit.task
    assert (await stats(server))["running"] == 0


async def test_a_worker_that_embeds_does_not_generate(server: WorkerServer) -> None:
    for path in ("/v1/completions", "/v1/chat/completions"):
        assert (await Visit(server, "POST", path, body()).end()).status == 404


async def test_a_draining_worker_embeds_nothing_new(server: WorkerServer) -> None:
    await Visit(server, "POST", "/v1/sluice/drain").end()
    visit = await Visit(server, "POST", EMBEDDINGS, body()).end()
    assert (visit.status, visit.json()["error"]["code"]) == (503, "worker_draining")
