"""`/v1/responses` through the whole gateway: counted, forwarded, cut, left and paid for."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from billing.money import usd
from billing.types import CallStatus
from gateway.upstream import fake
from tests.gateway.api.asgi import ask
from tests.gateway.edge import API_KEY, OUTPUT_PRICE, Edge, edge, story
from tests.gateway.wire.responses.calls import named
from tests.redis_server import RedisServer

RESPONSES = "/v1/responses"


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


def body(**changes: Any) -> dict[str, Any]:
    return {"model": "tale", "input": "Tell a story.", "max_output_tokens": 64} | changes


async def test_whole_answer_is_a_response_with_its_cost(one: Edge) -> None:
    response = await one.post(body(), path=RESPONSES)
    assert response.status == 200
    found = response.json
    assert found["id"] == f"resp_{response.headers['x-request-id'].removeprefix('req_')}"
    assert found["output"][0]["content"][0]["text"] == "word1 word2 word3 word4 "
    assert found["usage"]["cost"] == response.headers["x-sluice-cost-usd"] == "0.00005"
    [request] = one.upstream.requests
    assert request.path == "/v1/chat/completions"
    assert request.body["messages"] == [{"role": "user", "content": "Tell a story."}]
    await one.settled()


async def test_g8_response_is_booked_once_whole_or_streamed(one: Edge) -> None:
    for stream in (False, True):
        response = await one.post(body(stream=stream), path=RESPONSES)
        assert response.status == 200
    calls = (await one.settled()).values()
    assert [(call.status, call.output) for call in calls] == [("answered", 8)] * 2
    assert {call.amount_nanousd for call in calls} == {10 * 1000 + 8 * 5000}


async def test_stream_has_typed_events_and_no_done(one: Edge) -> None:
    response = await one.post(body(stream=True), path=RESPONSES)
    assert response.headers["content-type"].startswith("text/event-stream")
    events = named(response.body)
    assert events[0]["type"] == "response.created"
    assert events[-1]["type"] == "response.completed"
    assert events[-1]["response"]["usage"]["cost"] == "0.00005"
    assert events[-1]["sluice"]["pool"] == "tale-reserved"
    assert b"[DONE]" not in response.body
    await one.settled()


async def test_an_answer_says_when_it_was_completed_and_how_it_was_drawn(one: Edge) -> None:
    drawn = {"presence_penalty": 0.5, "frequency_penalty": -1}
    whole = (await one.post(body(**drawn), path=RESPONSES)).json
    response = await one.post(body(stream=True, **drawn), path=RESPONSES)
    events = named(response.body)
    for found in (whole, events[-1]["response"]):
        assert found["status"] == "completed"
        assert isinstance(found["completed_at"], int)
        assert found["completed_at"] >= found["created_at"]
        assert found.items() >= drawn.items()
    for event in events[:2]:
        assert (event["response"]["completed_at"], event["response"]["usage"]) == (None, None)
    assert one.upstream.requests[-1].body.items() >= drawn.items()
    one.upstream.scripts.append(fake.stream(fake.own_frame("a", 3, finish="length")))
    cut = (await one.post(body(), path=RESPONSES)).json
    assert (cut["status"], cut["completed_at"]) == ("incomplete", None)
    assert (cut["presence_penalty"], cut["frequency_penalty"]) == (0, 0)
    await one.settled()


async def test_stream_that_was_cut_ends_with_an_error_event(one: Edge) -> None:
    one.upstream.scripts.append(fake.stream(fake.own_frame("a", 3), then=[fake.Close()]))
    response = await one.post(body(stream=True), path=RESPONSES)
    events = named(response.body)
    assert (events[-1]["type"], events[-1]["code"]) == ("error", "upstream_disconnected")
    assert not {"response.completed", "response.incomplete"} & {e["type"] for e in events}
    (call,) = (await one.settled()).values()
    assert (call.status, call.output) == (CallStatus.FAILED, 3)


async def test_failure_while_it_waits_is_an_error_event_too(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    early = {"commit_after_s": 0.05, "keepalive_s": 0.05}
    async with edge(redis_server, redis, tmp_path, gateway=early) as one:
        await one.publish_fleet(others="no capacity")
        response = await one.post_and_outwait(body(stream=True), path=RESPONSES, told=b": ")
        assert response.status == 200
        assert response.body.startswith(b": ")
        last = response.body.rpartition(b"event: ")[2]
        assert last.startswith(b'error\ndata: {"type":"error","sequence_number":0,')
        await one.settled()


async def test_money_that_runs_out_leaves_the_response_incomplete(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    little = {"budget_usd": usd(100 * OUTPUT_PRICE // 10**6), "budget_window": "total"}
    slices = {"output_slice_tokens": 16}
    async with edge(redis_server, redis, tmp_path, gateway=slices, limits=little) as one:
        one.upstream.scripts.append(story(frames=60, tokens_a_frame=8))
        response = await one.post(body(stream=True, max_output_tokens=2000), path=RESPONSES)
        last = named(response.body)[-1]
        assert last["type"] == "response.incomplete"
        assert last["sluice"]["stop_reason"] == "budget_exhausted"
        await one.settled()


REFUSED: dict[str, tuple[dict[str, Any], int, str | None, str | None]] = {
    "a stored answer": (body(store=True), 400, "store", "unsupported_parameter"),
    "too long": (body(input="word " * 5000), 400, "input", "context_length_exceeded"),
    "too much": (body(max_output_tokens=3000), 400, "max_output_tokens", "invalid_value"),
    "an unknown model": (body(model="nope"), 404, "model", "model_not_found"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_refusal_is_openais_and_names_the_fields_of_this_route(one: Edge, name: str) -> None:
    wanted, status, param, code = REFUSED[name]
    response = await one.refused(wanted, path=RESPONSES)
    error = response.json["error"]
    assert (response.status, error["param"], error["code"]) == (status, param, code)
    assert "'messages'" not in error["message"]
    assert "'max_tokens'" not in error["message"]


async def test_what_a_worker_refuses_is_told_in_the_fields_of_this_route(one: Edge) -> None:
    for param, own in (
        ("tools[0].function.parameters", "tools[0].parameters"),
        ("response_format.json_schema.schema", "text.format.schema"),
    ):
        one.upstream.scripts.append(fake.refusal(400, {"message": "No.", "param": param}))
        response = await one.post(body(), path=RESPONSES)
        assert (response.status, response.json["error"]["param"]) == (400, own)
    await one.settled()


async def test_response_is_quoted_like_chat(one: Edge) -> None:
    sent = json.dumps({"url": RESPONSES, "body": body(max_output_tokens=8)}).encode()
    status, told = await ask(one.app, "POST", "/v1/quote", sent, API_KEY)
    assert (status, told["error"], told["output_tokens_max"]) == (200, None, 8)
    assert not one.upstream.requests


async def test_count_is_refused_in_openais_words_and_the_fields_of_this_route(one: Edge) -> None:
    counted = {"model": "tale", "input": "Tell a story."}
    bad_tool = {"type": "function", "name": "a b"}
    for sent, key, status, param in (
        (counted, "sk-x", 401, None),
        (counted | {"max_output_tokens": 5}, API_KEY, 400, "max_output_tokens"),
        (counted | {"tools": [bad_tool]}, API_KEY, 400, "tools[0].name"),
        (counted | {"model": "nope"}, API_KEY, 404, "model"),
        (counted, API_KEY, 400, "model"),  # its tokenizer is not here
    ):
        path = f"{RESPONSES}/input_tokens"
        got, told = await ask(one.app, "POST", path, json.dumps(sent).encode(), key)
        assert (got, told["error"]["param"]) == (status, param)
    assert not await one.money_keys()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/responses/resp_1"),
        ("DELETE", "/v1/responses/resp_1"),
        ("POST", "/v1/responses/resp_1/cancel"),
        ("GET", "/v1/responses/resp_1/input_items"),
        ("POST", "/v1/conversations"),
    ],
)
async def test_g8_what_would_need_memory_is_not_there_and_bills_nothing(
    one: Edge, method: str, path: str
) -> None:
    status, told = await ask(one.app, method, path, b"", API_KEY)
    assert (status, told["error"]["code"]) == (404, "not_offered")
    assert "kept" in told["error"]["message"]
    assert not await one.money_keys()
