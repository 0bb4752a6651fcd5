"""`/v1/messages` through the whole gateway: counted, forwarded, cut, left and paid for."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from anthropic.types import ModelInfo
from redis.asyncio import Redis

from billing.money import usd
from billing.types import CallStatus
from gateway.upstream import fake
from tests.gateway.api.asgi import ask
from tests.gateway.edge import API_KEY, OUTPUT_PRICE, Edge, edge, story
from tests.gateway.served import served
from tests.gateway.wire.responses.calls import named
from tests.plain_http import NOBODY
from tests.redis_server import RedisServer

MESSAGES = "/v1/messages"
COUNT = "/v1/messages/count_tokens"


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


def body(**changes: Any) -> dict[str, Any]:
    said = [{"role": "user", "content": "Tell a story."}]
    return {"model": "tale", "messages": said, "max_tokens": 64} | changes


async def test_whole_answer_is_a_message_with_its_cost(one: Edge) -> None:
    key = {"x-api-key": API_KEY, "authorization": "", "anthropic-version": "2023-06-01"}
    response = await one.post(body(), path=MESSAGES, headers=key)
    assert response.status == 200
    found = response.json
    rid = response.headers["x-request-id"]
    assert (found["id"], response.headers["request-id"]) == (f"msg_{rid[4:]}", rid)
    assert found["content"] == [{"type": "text", "text": "word1 word2 word3 word4 "}]
    assert (found["stop_reason"], found["usage"]["input_tokens"]) == ("end_turn", 10)
    assert found["usage"]["cost"] == response.headers["x-sluice-cost-usd"] == "0.00005"
    await one.settled()


async def test_message_is_booked_once_whole_or_streamed(one: Edge) -> None:
    for stream in (False, True):
        response = await one.post(body(stream=stream), path=MESSAGES)
        assert response.status == 200
    calls = (await one.settled()).values()
    assert [(call.status, call.output) for call in calls] == [("answered", 8)] * 2
    assert {call.amount_nanousd for call in calls} == {10 * 1000 + 8 * 5000}


async def test_stream_starts_tells_and_stops(one: Edge) -> None:
    response = await one.post(body(stream=True), path=MESSAGES)
    kinds = [event["type"] for event in named(response.body)]
    assert kinds == [
        "message_start",
        "ping",
        "content_block_start",
        *["content_block_delta"] * 4,
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    start, *_, delta, _ = named(response.body)
    assert start["message"]["usage"]["input_tokens"] == 10
    assert delta["usage"]["output_tokens"] == 8
    assert delta["usage"]["cost"] == "0.00005"
    await one.settled()


async def test_stop_sequence_that_ended_it_is_named(one: Edge) -> None:
    choice = {"index": 0, "delta": {"content": "a"}, "finish_reason": "stop", "stop_reason": "END"}
    event = fake.own_event([choice], 10, 0, 1)
    for stream in (False, True):
        one.upstream.scripts.append(fake.stream(event, fake.DONE))
        response = await one.post(body(stop_sequences=["END"], stream=stream), path=MESSAGES)
        told = named(response.body)[-2]["delta"] if stream else response.json
        assert (told["stop_reason"], told["stop_sequence"]) == ("stop_sequence", "END")
    assert one.upstream.requests[0].body["stop"] == ["END"]
    await one.settled()


async def test_stream_that_was_cut_ends_with_an_error_event(one: Edge) -> None:
    one.upstream.scripts.append(fake.stream(fake.own_frame("a", 3), then=[fake.Close()]))
    response = await one.post(body(stream=True), path=MESSAGES)
    events = named(response.body)
    assert (events[-1]["type"], events[-1]["error"]["type"]) == ("error", "api_error")
    assert not {"message_delta", "message_stop"} & {event["type"] for event in events}
    (call,) = (await one.settled()).values()
    assert (call.status, call.output) == (CallStatus.FAILED, 3)


async def test_failure_while_it_waits_is_an_error_event_after_pings(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    early = {"commit_after_s": 0.05, "keepalive_s": 0.05}
    async with edge(redis_server, redis, tmp_path, gateway=early) as one:
        await one.publish_fleet(others="no capacity")
        response = await one.post_and_outwait(body(stream=True), path=MESSAGES, told=b"event: ping")
        assert response.status == 200
        blocks = response.body.decode().split("\n\n")[:-1]
        assert re.fullmatch(r': .+\nevent: ping\ndata: \{"type":"ping"\}', blocks[0])
        assert blocks[-1].startswith('event: error\ndata: {"type":"error"')
        assert response.headers["x-request-id"] in blocks[-1]
        await one.settled()


async def test_money_that_runs_out_ends_the_message_at_its_bound(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    little = {"budget_usd": usd(100 * OUTPUT_PRICE // 10**6), "budget_window": "total"}
    slices = {"output_slice_tokens": 16}
    async with edge(redis_server, redis, tmp_path, gateway=slices, limits=little) as one:
        one.upstream.scripts.append(story(frames=60, tokens_a_frame=8))
        response = await one.post(body(stream=True, max_tokens=2000), path=MESSAGES)
        *_, delta, stop = named(response.body)
        assert (delta["delta"]["stop_reason"], stop["type"]) == ("max_tokens", "message_stop")
        assert delta["sluice"]["stop_reason"] == "budget_exhausted"
        await one.settled()


async def test_limits_are_told_in_anthropics_headers(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    limits = {"requests_per_minute": 1, "request_burst": 1, "tokens_per_minute": 10_000}
    async with edge(redis_server, redis, tmp_path, limits=limits) as one:
        answered = await one.post(body(), path=MESSAGES)
        refused = await one.post(body(), path=MESSAGES)
        assert (answered.status, refused.status) == (200, 429)
        for response in (answered, refused):
            assert not any(name.startswith("x-ratelimit-") for name in response.headers)
            reset = response.headers["anthropic-ratelimit-requests-reset"]
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", reset)
            assert response.headers["anthropic-ratelimit-requests-remaining"] == "0"
        assert "anthropic-ratelimit-tokens-limit" in answered.headers
        assert refused.json["error"]["type"] == "rate_limit_error"
        assert int(refused.headers["retry-after"]) > 0
        await one.settled()


REFUSED: dict[str, tuple[bytes | dict[str, Any], dict[str, str], int, str]] = {
    "no JSON": (b"{", {}, 400, "invalid_request_error"),
    "no bound": (body(max_tokens=None), {}, 400, "invalid_request_error"),
    "too long": (body(max_tokens=4096), {}, 400, "invalid_request_error"),
    "an unknown model": (body(model="nope"), {}, 404, "not_found_error"),
    "a wrong key": (body(), {"x-api-key": "sk-x"}, 401, "authentication_error"),
    "no key": (body(), {"authorization": ""}, 401, "authentication_error"),
    "XML": (body(), {"content-type": "text/xml"}, 415, "invalid_request_error"),
    "no capacity": (body(), {"x-sluice-deadline-ms": "1"}, 503, "overloaded_error"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_refusal_is_anthropics(one: Edge, name: str) -> None:
    wanted, headers, status, kind = REFUSED[name]
    if name == "no capacity":
        await one.publish_fleet(others="no capacity")
    response = await one.post(wanted, path=MESSAGES, headers=headers)
    assert_refused(response.status, response.json, status, kind)
    assert response.json["request_id"] == response.headers["request-id"]
    assert response.headers["x-request-id"] == response.headers["request-id"]
    await one.settled()


def assert_refused(got: int | None, told: Any, status: int, kind: str) -> None:
    assert (got, told["type"], told["error"]["type"]) == (status, "error", kind)
    assert told["error"]["message"] and told["request_id"].startswith("req_")


async def test_other_ways_to_these_urls_are_refused_in_anthropics_words(one: Edge) -> None:
    for method, path, status, kind in (
        ("GET", MESSAGES, 405, "invalid_request_error"),
        ("GET", f"{MESSAGES}/msg_1", 404, "not_found_error"),
        ("POST", f"{MESSAGES}/batches", 404, "not_found_error"),
        ("GET", COUNT, 405, "invalid_request_error"),
    ):
        got, told = await ask(one.app, method, path, b"", API_KEY)
        assert_refused(got, told, status, kind)


async def test_count_is_refused_in_anthropics_words(one: Edge) -> None:
    counted = {"model": "tale", "messages": body()["messages"]}
    for sent, key, status, kind in (
        (counted, "sk-x", 401, "authentication_error"),
        (body(), API_KEY, 400, "invalid_request_error"),
        (counted | {"model": "nope"}, API_KEY, 404, "not_found_error"),
        (counted, API_KEY, 400, "invalid_request_error"),  # its tokenizer is not here
    ):
        got, told = await ask(one.app, "POST", COUNT, json.dumps(sent).encode(), key)
        assert_refused(got, told, status, kind)
    assert "tokenizer" in told["error"]["message"]
    assert not await one.money_keys()


async def test_message_is_quoted_like_chat(one: Edge) -> None:
    sent = json.dumps({"url": MESSAGES, "body": body(max_tokens=8)}).encode()
    status, told = await ask(one.app, "POST", "/v1/quote", sent, API_KEY)
    assert (status, told["error"], told["output_tokens_max"]) == (200, None, 8)
    assert not one.upstream.requests


async def test_models_are_listed_in_the_shape_that_anthropics_clients_read(one: Edge) -> None:
    spoken = {"x-api-key": API_KEY, "anthropic-version": "2023-06-01"}
    async with (
        served(one.app) as url,
        httpx.AsyncClient(verify=NOBODY, base_url=url, headers=spoken) as client,
    ):
        listed = (await client.get("/v1/models")).json()
        found = (await client.get("/v1/models/tale")).json()
        missing = await client.get("/v1/models/nope")
        stranger = await client.get("/v1/models", headers={"x-api-key": "sk-x"})
    assert [ModelInfo.model_validate(model).id for model in listed["data"]]
    assert found in listed["data"] and found["max_input_tokens"] == 4096
    assert (listed["has_more"], listed["last_id"]) == (False, listed["data"][-1]["id"])
    assert_refused(missing.status_code, missing.json(), 404, "not_found_error")
    assert_refused(stranger.status_code, stranger.json(), 401, "authentication_error")


async def test_models_come_in_pages_as_anthropics_clients_ask_for_them(one: Edge) -> None:
    spoken = {"x-api-key": API_KEY, "anthropic-version": "2023-06-01"}
    async with (
        served(one.app) as url,
        httpx.AsyncClient(verify=NOBODY, base_url=url, headers=spoken) as client,
    ):

        async def page(**asked: object) -> httpx.Response:
            return await client.get("/v1/models", params={k: str(v) for k, v in asked.items()})

        every = [model["id"] for model in (await page()).json()["data"]]
        first = (await page(limit=1)).json()
        second = (await page(limit=1, after_id=first["last_id"])).json()
        back = (await page(limit=1, before_id=second["first_id"])).json()
        wrong = {name: (await page(**{name: "nope"})).json() for name in ("after_id", "before_id")}
        statuses = [(await page(limit=n)).status_code for n in (0, 1001, "x")]
        both = await page(after_id=every[0], before_id=every[1])
    assert [first["first_id"], second["first_id"]] == every[:2]
    assert (first["has_more"], back) == (True, first | {"has_more": False})
    assert statuses == [400, 400, 400]
    assert_refused(both.status_code, both.json(), 400, "invalid_request_error")
    for name, told in wrong.items():
        assert_refused(400, told, 400, "invalid_request_error")
        assert name in told["error"]["message"]
