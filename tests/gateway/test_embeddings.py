"""`/v1/embeddings` through the whole journey: one hold, exact usage, every end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from billing.types import CallStatus
from gateway.upstream import fake
from tests.gateway.edge import EMBEDDINGS, Edge, Response, edge
from tests.redis_server import RedisServer

VECTORS: dict[int, list[float]] = {0: [0.5, -0.25], 1: [1.0, 0.0], 2: [0.0, 2.0]}


def in_two_batches(_: fake.Request) -> fake.Script:
    return fake.stream(
        fake.own_vectors({1: VECTORS[1], 2: VECTORS[2]}, 7),
        fake.own_vectors({0: VECTORS[0]}, 9),
        fake.DONE,
    )


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path, behaviour=in_two_batches) as running:
        yield running


def wanted(**changes: Any) -> dict[str, Any]:
    return {"model": "vectors", "input": ["a", "b", "c"]} | changes


async def test_vectors_come_in_the_order_of_the_inputs_and_cost_their_tokens(one: Edge) -> None:
    response = await one.post(wanted(), path=EMBEDDINGS)
    assert response.status == 200
    assert [(d["index"], d["embedding"]) for d in response.json["data"]] == [*VECTORS.items()]
    usage = response.json["usage"]
    assert (usage["prompt_tokens"], usage["total_tokens"]) == (9, 9)
    assert response.headers["x-sluice-cost-usd"] == usage["cost"] == "0.000009"
    assert response.headers["x-sluice-pool"] == "vectors"
    (call,) = (await one.settled()).values()
    assert (call.input, call.output, call.amount_nanousd) == (9, 0, 9000)
    assert (call.status, call.finish_reason) == ("answered", "stop")
    assert call.first_token_us is not None


async def test_base64_is_passed_on_untouched(one: Edge) -> None:
    response = await one.post(wanted(encoding_format="base64"), path=EMBEDDINGS)
    found = [d["embedding"] for d in response.json["data"]]
    assert found == [fake.base64_of(vector) for vector in VECTORS.values()]
    await one.settled()


async def test_worker_is_sent_the_inputs_as_they_are(one: Edge) -> None:
    await one.post(wanted(input=[[5, 6], [7], [8]], dimensions=2, user="u"), path=EMBEDDINGS)
    (request,) = one.upstream.requests
    assert request.path == "/v1/embeddings"
    assert request.body["input"] == [[5, 6], [7], [8]]
    assert request.body["dimensions"] == 2
    assert request.body["sluice"]["request_id"].startswith("req_")
    await one.settled()


async def test_many_vectors_come_in_order_too(one: Edge) -> None:
    vectors = {index: [float(index), 1.0] for index in range(300)}
    one.upstream.behaviour = lambda _: fake.stream(fake.own_vectors(vectors, 300), fake.DONE)
    response = await one.post(wanted(input=["a"] * 300), path=EMBEDDINGS)
    assert [d["embedding"] for d in response.json["data"]] == list(vectors.values())
    await one.settled()


async def test_client_that_leaves_at_any_turn_of_the_loop_leaves_nothing_open(one: Edge) -> None:
    for turns in range(0, 160, 4):

        async def leave(_: Response, turns: int = turns) -> None:
            for _ in range(turns):
                await asyncio.sleep(0)

        await one.post(wanted(), path=EMBEDDINGS, leave=leave)
    await one.settled()


NOT_ADMITTED: dict[str, tuple[dict[str, Any], int, str | None, str | None]] = {
    "no input": (wanted(input=None), 400, "missing_required_parameter", "input"),
    "an empty one": (wanted(input=["a", ""]), 400, "empty_string", "input[1]"),
    "a model that generates": (wanted(model="tale"), 400, "model_not_supported", "model"),
    "no model named": (wanted(model="auto"), 400, "invalid_value", "model"),
    "unknown model": (wanted(model="nope"), 404, "model_not_found", "model"),
    "too long": (wanted(input=["a", "b" * 57]), 400, "context_length_exceeded", "input[1]"),
    "too many ids": (wanted(input=[5] * 65), 400, "context_length_exceeded", "input"),
    "a stream": (wanted(stream=True), 400, None, "stream"),
}


@pytest.mark.parametrize("case", NOT_ADMITTED.values(), ids=NOT_ADMITTED.keys())
async def test_what_is_wrong_before_admission_takes_nothing(one: Edge, case: Any) -> None:
    wrong, status, code, param = case
    response = await one.refused(wrong, path=EMBEDDINGS)
    assert (response.status, response.error_code) == (status, code)
    assert response.json["error"]["param"] == param


async def test_input_that_fills_the_whole_context_is_taken(one: Edge) -> None:
    full = wanted(input=[[5] * 64, [5], [5]])
    assert (await one.post(full, path=EMBEDDINGS)).status == 200
    await one.settled()


@pytest.mark.parametrize("code", ["context_length_exceeded", "invalid_value"])
async def test_workers_own_400_is_passed_on(one: Edge, code: str) -> None:
    error = {"message": "dimensions: at most 384", "code": code, "param": "dimensions"}
    one.upstream.behaviour = lambda _: fake.refusal(400, error)
    response = await one.post(wanted(dimensions=400), path=EMBEDDINGS)
    assert (response.status, response.error_code) == (400, code)
    assert response.json["error"]["param"] == "dimensions"
    (call,) = (await one.settled()).values()
    assert call.amount_nanousd == 0


async def test_worker_that_dies_halfway_is_started_over(one: Edge) -> None:
    one.upstream.scripts.append(
        fake.stream(fake.own_vectors({1: VECTORS[1]}, 3), then=[fake.Close()])
    )
    await one.publish_fleet(one.replica("r1"), one.replica("r2"))
    response = await one.post(wanted(), path=EMBEDDINGS)
    assert [d["embedding"] for d in response.json["data"]] == list(VECTORS.values())
    (call,) = (await one.settled()).values()
    assert [attempt.outcome for attempt in call.attempts] == ["cut", "answered"]
    assert call.input == 9


async def test_client_that_leaves_hangs_up_and_pays_for_what_was_computed(one: Edge) -> None:
    one.upstream.scripts.append(
        fake.stream(fake.own_vectors({1: VECTORS[1]}, 3), then=[fake.Stall()])
    )

    async def once_computed(_: Response) -> None:
        while not any(call.usage.input for call in one.parts.accounts.open.values()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    response = await one.post(wanted(), path=EMBEDDINGS, leave=once_computed)
    assert response.status is None
    (call,) = (await one.settled()).values()
    assert (call.status, call.input) == (CallStatus.CANCELLED, 3)


async def test_deadline_that_passes_while_waiting_is_a_504(one: Edge) -> None:
    await one.publish_fleet()
    response = await one.post_and_outwait(wanted(), path=EMBEDDINGS)
    assert (response.status, response.error_code) == (504, "deadline_exceeded")
    await one.settled()
