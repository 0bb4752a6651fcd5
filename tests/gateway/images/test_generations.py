"""`/v1/images/generations` through the whole journey, at a server outside: what is held, what is
charged for what came, every end, and every exact no."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from billing.ledger import booking
from billing.ledger.booking import Record
from billing.money import nanousd
from billing.spool.segments import SpoolLineKind, read_lines, segments
from billing.types import decode_opened, encode
from gateway.upstream import fake
from tests.gateway.api.asgi import ask
from tests.gateway.api.described import assert_described
from tests.gateway.edge import API_KEY, IMAGE_PRICES, PAINTER, RANKER, SKETCHER, Edge, edge
from tests.gateway.images.pictures import AT_URL, BASE64, MADE, USED, makes, says
from tests.openai_api.valid import assert_valid
from tests.redis_server import RedisServer

Server = fake.FakeUpstream
IMAGES = "/v1/images/generations"
POOLS = (
    {"name": "paints", "model": PAINTER, "cost_usd_per_unit": "0.01"},
    {"name": "sketches", "model": SKETCHER},
)
SQUARE, SQUARE_HIGH = IMAGE_PRICES["image/1024x1024"], IMAGE_PRICES["image/1024x1024/high"]
TALL_LOW, TALL_HIGH = IMAGE_PRICES["image/1024x1536/low"], IMAGE_PRICES["image/1024x1536/high"]
OUTPUT_MAX = 2048
"""Tokens of an image, as the models of the edge are declared."""
ROUNDED = 1
"""Of a prompt, whose tokens may be of two classes."""


def wanted(**changes: Any) -> dict[str, Any]:
    return {"model": PAINTER, "prompt": "a red square"} | changes


@pytest.fixture
async def server() -> AsyncIterator[fake.FakeUpstream]:
    async with fake.FakeUpstream(makes(MADE)) as running:
        yield running


@pytest.fixture
async def one(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, server: fake.FakeUpstream
) -> AsyncIterator[Edge]:
    pools = [{"base_url": f"{server.address}/v1"} | pool for pool in POOLS]
    async with edge(redis_server, redis, tmp_path, outer_pools=pools) as running:
        yield running


def held(one: Edge) -> int:
    """What was held for the only call."""
    lines = [
        line
        for segment in segments(one.spool_root, one.gateway_id)
        for line in read_lines(segment)
        if line.k is SpoolLineKind.OPENED
    ]
    (line,) = lines
    return decode_opened(bytes(line.p)).hold_nanousd


SOLD: dict[str, tuple[dict[str, Any], dict[str, Any], int, int, str, int]] = {
    "of a size and a quality": (
        {"size": "1024x1024", "quality": "high"},
        {"size": "1024x1024", "quality": "high"},
        *(1, SQUARE_HIGH, "1024x1024/high", SQUARE_HIGH),
    ),
    "of a size alone": (
        {"size": "1024x1024", "quality": "low"},
        {},
        *(1, SQUARE, "1024x1024/low", SQUARE),
    ),
    "of a size that the server chooses": (
        {},
        {"size": "1024x1536", "quality": "low"},
        *(1, TALL_HIGH, "1024x1536/low", TALL_LOW),
    ),
    "of a quality that the server chooses": (
        {"size": "1024x1024", "quality": "auto"},
        {"quality": "medium"},
        *(1, SQUARE_HIGH, "1024x1024/medium", SQUARE),
    ),
    "of which the server does not say how it chose": (
        {"size": "auto"},
        {},
        *(1, TALL_HIGH, "auto/auto", TALL_HIGH),
    ),
    "better than it was asked for": (
        {"size": "1024x1024", "quality": "low"},
        {"size": "1024x1536", "quality": "high"},
        *(1, SQUARE, "1024x1024/low", SQUARE),
    ),
    "several": (
        {"n": 3, "size": "1024x1536", "quality": "high"},
        {},
        *(3, 3 * TALL_HIGH, "1024x1536/high", 3 * TALL_HIGH),
    ),
    "fewer than were asked for": (
        {"n": 3, "size": "1024x1536", "quality": "high"},
        {},
        *(2, 3 * TALL_HIGH, "1024x1536/high", 2 * TALL_HIGH),
    ),
    "more than were asked for": (
        {"n": 2, "size": "1024x1536", "quality": "high"},
        {},
        *(4, 2 * TALL_HIGH, "1024x1536/high", 2 * TALL_HIGH),
    ),
}


@pytest.mark.parametrize(
    ("asked", "said", "made", "hold", "unit", "amount"), SOLD.values(), ids=SOLD.keys()
)
async def test_an_image_is_held_before_it_is_made_and_charged_as_it_came(
    *,
    one: Edge,
    server: Server,
    asked: dict[str, Any],
    said: dict[str, Any],
    made: int,
    hold: int,
    unit: str,
    amount: int,
) -> None:
    server.behaviour = makes(*[MADE] * made, **said)
    response = await one.post(wanted(**asked), path=IMAGES)
    assert response.status == 200, response.json
    assert_valid("ImagesResponse", response.json)
    assert_described(one.app, "POST", IMAGES, 200, response.json)
    came = min(made, asked.get("n", 1))
    assert response.json["data"] == [MADE] * came
    assert {name: response.json.get(name) for name in said} == said
    (request,) = server.requests
    assert request.path == IMAGES
    assert request.body == {"model": "their-tale", "prompt": "a red square"} | asked
    (call,) = (await one.settled()).values()
    assert (call.usage.units, call.usage.unit) == (came, f"image/{unit}")
    assert call.amount_nanousd == amount
    assert amount <= held(one) == hold + ROUNDED
    assert nanousd(response.headers["x-sluice-cost-usd"]) == amount
    assert response.json["usage"]["cost"] == response.headers["x-sluice-cost-usd"]
    (attempt,) = call.attempts
    assert (attempt.units, attempt.nanousd_per_unit) == (made, 10_000_000)


BOUND = 20
"""Tokens of the prompt, in bytes."""
IN_TOKENS: dict[str, tuple[dict[str, Any] | None, int, int]] = {
    "as OpenAI does": (USED, 5, 1056),
    "more than may be": (USED | {"input_tokens": 9_000, "output_tokens": 90_000}, BOUND, 4096),
    "nothing": (None, BOUND, 0),
}


@pytest.mark.parametrize(("used", "read", "shown"), IN_TOKENS.values(), ids=IN_TOKENS.keys())
async def test_a_model_that_is_sold_by_tokens_costs_those_of_its_images(
    one: Edge, server: Server, used: dict[str, Any] | None, read: int, shown: int
) -> None:
    server.behaviour = makes(MADE, MADE, **({"usage": used} if used else {}))
    response = await one.post(wanted(model=SKETCHER, n=2, size="1024x1024"), path=IMAGES)
    assert response.status == 200
    (call,) = (await one.settled()).values()
    usage = call.usage
    assert (usage.input, usage.image_output, usage.output) == (read, shown, 0)
    assert (usage.units, usage.unit) == (0, "")
    assert call.amount_nanousd == read * 10 + shown * 40 <= held(one)
    assert held(one) >= 2 * OUTPUT_MAX * 40
    told = response.json["usage"]
    assert told["output_tokens_details"] == {"text_tokens": 0, "image_tokens": shown}
    assert told["input_tokens_details"] == {"text_tokens": read, "image_tokens": 0}
    assert told["total_tokens"] == read + shown


async def test_urls_and_what_was_made_of_the_prompt_are_passed_on(
    one: Edge, server: Server
) -> None:
    server.behaviour = makes(AT_URL)
    response = await one.post(wanted(response_format="url", style="vivid"), path=IMAGES)
    assert response.json["data"] == [AT_URL]
    (request,) = server.requests
    assert (request.body["response_format"], request.body["style"]) == ("url", "vivid")
    await one.settled()


async def test_whoever_names_no_model_gets_one_that_makes_images(one: Edge, server: Server) -> None:
    response = await one.post({"prompt": "a fox", "size": "1024x1024"}, path=IMAGES)
    assert response.status == 200
    await one.settled()


FIRST: dict[str, fake.Script] = {
    "that is busy": fake.refusal(503, {"message": "busy"}),
    "that is broken": fake.refusal(500, {"message": "broken"}),
    "that is cut": fake.Script([fake.Send(b'{"data": [{"b64_json"'), fake.Reset()]),
    "that makes none": says(created=1, data=[])(fake.Request("", {}, {})),
}


@pytest.mark.parametrize("first", FIRST.values(), ids=FIRST.keys())
async def test_an_image_is_charged_once_whatever_is_retried(
    one: Edge, server: Server, first: fake.Script
) -> None:
    server.scripts.append(first)
    response = await one.post(wanted(size="1024x1536", quality="low"), path=IMAGES)
    assert (response.status, response.json["data"]) == (200, [MADE])
    assert len(server.requests) == 2
    (call,) = (await one.settled()).values()
    assert (call.usage.units, call.amount_nanousd) == (1, TALL_LOW)
    assert len(call.attempts) == 2


async def test_an_idempotent_call_makes_and_costs_its_images_once(
    one: Edge, server: Server
) -> None:
    key = {"idempotency-key": "a red square"}
    answers = [await one.post(wanted(), path=IMAGES, headers=key) for _ in range(2)]
    assert answers[0].body == answers[1].body
    assert len(server.requests) == 1
    assert len(await one.settled()) == 1


NONSENSE: dict[str, dict[str, Any]] = {
    "no images": {"data": []},
    "an image that is nothing": {"data": [{}]},
    "an empty image": {"data": [{"b64_json": ""}]},
    "no base64": {"data": [{"b64_json": "<html>"}]},
    "another shape": {"images": [BASE64]},
    "tokens below zero": {"data": [MADE], "usage": USED | {"output_tokens": -1}},
}


@pytest.mark.parametrize("nonsense", NONSENSE.values(), ids=NONSENSE.keys())
async def test_a_server_that_answers_nonsense_costs_nobody_anything(
    one: Edge, server: Server, nonsense: dict[str, Any]
) -> None:
    server.behaviour = says(**nonsense)
    response = await one.post(wanted(), path=IMAGES)
    assert response.status in (502, 503)
    (call,) = (await one.settled()).values()
    assert (call.amount_nanousd, call.usage.units) == (0, 0)


async def test_an_answer_without_end_is_cut(
    one: Edge, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.upstream.openai.DOCUMENT_BYTES_MAX", 1 << 20)
    begin = fake.Send(b'{"data": [{"b64_json": "')
    more = [fake.Send(b"A" * 65_536)] * 400
    server.behaviour = lambda _: fake.Script([begin, *more, fake.Stall()], headers=())
    response = await one.post(wanted(), path=IMAGES)
    assert response.status in (502, 503)
    assert server.sent_bytes < len(server.requests) * 400 * 65_536
    (call,) = (await one.settled()).values()
    assert (call.amount_nanousd, call.usage.units) == (0, 0)


WRONG: dict[str, tuple[dict[str, Any], str, str | None]] = {
    "none": ({"n": 0}, "n", "invalid_value"),
    "too many": ({"n": 11}, "n", "invalid_value"),
    "half an image": ({"n": 1.5}, "n", "invalid_type"),
    "no prompt": ({"prompt": None}, "prompt", "missing_required_parameter"),
    "an empty prompt": ({"prompt": ""}, "prompt", "empty_string"),
    "a prompt too long": ({"prompt": "a" * 32_001}, "prompt", "string_above_max_length"),
    "a prompt beyond its model": ({"prompt": "a" * 5_000}, "prompt", "context_length_exceeded"),
    "an unknown size": ({"size": "large"}, "size", "invalid_value"),
    "a size of nothing": ({"size": "0x1024"}, "size", "invalid_value"),
    "an unknown quality": ({"quality": "best"}, "quality", "invalid_value"),
    "a size without a price": ({"size": "512x512"}, "size", "model_not_priced"),
    "a quality without a price": (
        {"size": "1024x1536", "quality": "medium"},
        *("size", "model_not_priced"),
    ),
    "a stream": ({"stream": True}, "stream", "unsupported_parameter"),
    "images on the way": ({"partial_images": 2}, "partial_images", "unsupported_parameter"),
    "an unknown field": ({"seed": 1}, "seed", None),
    "a model that generates": ({"model": "tale"}, "model", "model_not_supported"),
    "a model that is not there": ({"model": RANKER}, "model", "model_not_found"),
}


async def test_what_is_wrong_is_named_and_takes_nothing(one: Edge, server: Server) -> None:
    for what, (changes, param, code) in WRONG.items():
        response = await one.refused(wanted(**changes), path=IMAGES)
        error = response.json["error"]
        status = 404 if code == "model_not_found" else 400
        assert (response.status, error["param"]) == (status, param), what
        assert code is None or error["code"] == code, what
    assert not server.requests


async def test_what_asks_for_nothing_is_taken(one: Edge) -> None:
    neutral = wanted(stream=False, partial_images=0, n=None, user="u")
    assert (await one.post(neutral, path=IMAGES)).status == 200
    await one.settled()


async def test_a_model_of_text_makes_no_images_of_a_conversation(one: Edge) -> None:
    said = {"model": PAINTER, "messages": [{"role": "user", "content": "a fox"}]}
    error = (await one.refused(said, path="/v1/chat/completions")).json["error"]
    assert (error["code"], error["param"]) == ("model_not_supported", "model")


async def test_a_quote_has_the_dearest_that_may_come(one: Edge) -> None:
    sent = json.dumps({"url": IMAGES, "body": wanted(n=2)}).encode()
    status, quoted = await ask(one.app, "POST", "/v1/quote", sent, API_KEY)
    assert status == 200
    assert_described(one.app, "POST", "/v1/quote", status, quoted)
    assert nanousd(quoted["models"][0]["max_usd"]) == 2 * TALL_HIGH
    assert nanousd(quoted["hold_usd"]) == 2 * TALL_HIGH + ROUNDED


async def test_models_say_that_they_make_images(one: Edge) -> None:
    status, model = await ask(one.app, "GET", f"/v1/models/{PAINTER}", b"", API_KEY)
    assert status == 200
    assert (model["task"], model["capabilities"]["images"]) == ("image", True)
    assert "size" in model["supported_parameters"]
    status, other = await ask(one.app, "GET", "/v1/models/tale", b"", API_KEY)
    assert not other["capabilities"]["images"]


async def test_images_are_in_the_ledger_and_in_the_usage_of_their_organization(one: Edge) -> None:
    await one.post(wanted(size="1024x1024", quality="high"), path=IMAGES)
    ((rid, call),) = (await one.settled()).items()
    record = Record(0, "1-0", "settled", rid, encode(call))
    with one.parts.ledger.write() as conn:
        booking.book(conn, booking.read([record], one.parts.catalog.prices, call.ended_us + 1))
    target = (
        f"/v1/organization/usage/images?group_by=model&start_time={call.ended_us // 10**6 - 60}"
    )
    status, page = await ask(one.app, "GET", target, b"", API_KEY)
    assert status == 200
    assert_valid("UsageResponse", page)
    (used,) = [result for bucket in page["data"] for result in bucket["results"]]
    assert (used["images"], used["num_model_requests"], used["model"]) == (1, 1, PAINTER)
    status, generation = await ask(one.app, "GET", f"/v1/generations/{rid}", b"", API_KEY)
    assert status == 200
    usage = generation["usage"]
    assert (usage["units"], usage["unit"]) == (1, "image/1024x1024/high")
    assert nanousd(generation["cost_usd"]) == SQUARE_HIGH


async def test_a_call_is_explained_as_any_other(one: Edge) -> None:
    response = await one.post(wanted(), path=IMAGES)
    (rid,) = await one.settled()
    assert response.headers["x-request-id"] == rid
    explained = await one.explained(rid)
    assert [each.pool for each in explained.candidates] == ["paints"]
