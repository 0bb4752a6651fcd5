"""`/v1/rerank` and `/v1/moderations` through the whole journey, at servers outside: the words of
Cohere, Jina, vLLM and OpenAI, one hold, units and tokens as reported, every end."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from openai.types import ModerationCreateResponse
from redis.asyncio import Redis

from billing.costs.attempts import bought_nanousd
from billing.money import nanousd
from gateway.upstream import fake
from tests.gateway.api.asgi import ask
from tests.gateway.api.described import assert_described
from tests.gateway.edge import API_KEY, JUDGE, RANKER, SEARCH_UNIT_PRICE, Edge, edge
from tests.redis_server import RedisServer

Server = fake.FakeUpstream
RERANK, OF_COHERE, MODERATIONS = "/v1/rerank", "/v2/rerank", "/v1/moderations"
POOLS = (
    {"name": "ranks", "model": RANKER, "cost_usd_per_unit": "0.001"},
    {"name": "judges", "model": JUDGE},
)
RESULTS = [{"index": 2, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.5}]
UNIT_NANOUSD = SEARCH_UNIT_PRICE // 10**6
VERDICT = {"flagged": True, "categories": {"violence": True}, "category_scores": {"violence": 0.9}}


def says(**document: Any) -> Callable[[fake.Request], fake.Script]:
    sent = json.dumps(document).encode()
    headers = (("content-type", "application/json"),)
    return lambda _: fake.Script([fake.Send(sent)], headers=headers)


def wanted(**changes: Any) -> dict[str, Any]:
    documents = ["a red fox", {"text": "a bear"}, "a fox cub"]
    return {"model": RANKER, "query": "a fox", "documents": documents, "top_n": 2} | changes


@pytest.fixture
async def server() -> AsyncIterator[fake.FakeUpstream]:
    async with fake.FakeUpstream(says(results=RESULTS)) as running:
        yield running


@pytest.fixture
async def one(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, server: fake.FakeUpstream
) -> AsyncIterator[Edge]:
    pools = [{"base_url": f"{server.address}/v1"} | pool for pool in POOLS]
    async with edge(redis_server, redis, tmp_path, outer_pools=pools) as running:
        yield running


BOUND = 87
"""Tokens: of each document with the query, in bytes."""
COHERES = {"billed_units": {"search_units": 1}, "tokens": {"input_tokens": 9}}
SAID: dict[str, tuple[dict[str, Any], int, int]] = {
    "cohere": (
        {"meta": {"billed_units": {"search_units": 1}, "tokens": {"input_tokens": 9}}},
        9,
        1,
    ),
    "jina": ({"usage": {"total_tokens": 21}}, 21, 1),
    "vllm": ({"usage": {"prompt_tokens": 21, "total_tokens": 21}}, 21, 1),
    "more units than may be": ({"meta": {"billed_units": {"search_units": 7}}}, BOUND, 1),
    "more tokens than may be": ({"usage": {"total_tokens": 9_000}}, BOUND, 1),
}


@pytest.mark.parametrize(("said", "tokens", "units"), SAID.values(), ids=SAID.keys())
async def test_documents_come_in_their_order_and_cost_their_units_and_tokens(
    one: Edge, server: Server, said: dict[str, Any], tokens: int, units: int
) -> None:
    server.behaviour = says(results=RESULTS, **said)
    response = await one.post(wanted(), path=RERANK)
    assert response.status == 200
    found = [(each["index"], each["document"]["text"]) for each in response.json["results"]]
    assert found == [(2, "a fox cub"), (0, "a red fox")]
    assert response.json["meta"]["billed_units"] == {"search_units": units}
    (request,) = server.requests
    assert request.path == "/v1/rerank"
    assert request.body["documents"] == ["a red fox", "a bear", "a fox cub"]
    assert (request.body["model"], request.body["top_n"]) == ("their-tale", 2)
    (call,) = (await one.settled()).values()
    assert (call.usage.input, call.usage.units, call.usage.unit) == (tokens, units, "search_unit")
    assert call.amount_nanousd == tokens * 10 + units * UNIT_NANOUSD
    assert response.headers["x-sluice-cost-usd"] == response.json["usage"]["cost"]
    (attempt,) = call.attempts
    assert (attempt.nanousd_per_unit, attempt.outcome) == (1_000_000, "answered")
    assert attempt.units >= units


async def test_a_provider_charges_search_units_as_its_price_list_says(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, server: Server
) -> None:
    server.behaviour = says(results=RESULTS, **SAID["cohere"][0])
    pool = {"name": "ranks", "model": RANKER, "provider": "acme"}
    listed = {
        "model": "their-tale",
        "input_usd_per_mtok": "0",
        "output_usd_per_mtok": "0",
        "search_unit_usd": "0.002",
    }
    pools = [{"base_url": f"{server.address}/v1"} | pool]
    async with edge(redis_server, redis, tmp_path, outer_pools=pools) as one:
        lists = "/admin/v1/providers/acme/price-lists"
        await ask(one.app, "PUT", "/admin/v1/providers/acme", b'{"keys": []}', "admin")
        sent = json.dumps({"from": "2026-01-01T01:00:00Z", "rates": [listed]}).encode()
        await ask(one.app, "POST", lists, sent, "admin")
        assert (await ask(one.app, "POST", f"{lists}/1/approve", b"", "admin"))[0] == 200
        assert (await one.post(wanted(), path=RERANK)).status == 200
        (call,) = (await one.settled()).values()
        (attempt,) = call.attempts
        assert (attempt.units, attempt.nanousd_per_unit) == (1, 2_000_000)
        assert bought_nanousd(attempt) == 2_000_000


async def test_coheres_route_gives_no_documents_unless_it_is_asked_to(
    one: Edge, server: fake.FakeUpstream
) -> None:
    server.behaviour = says(results=RESULTS)
    plain = await one.post(wanted(), path=OF_COHERE)
    assert [set(each) for each in plain.json["results"]] == [{"index", "relevance_score"}] * 2
    full = await one.post(wanted(return_documents=True), path=OF_COHERE)
    assert full.json["results"][0]["document"] == {"text": "a fox cub"}
    await one.settled()


async def test_many_documents_are_as_many_units_as_cohere_counts(
    one: Edge, server: fake.FakeUpstream
) -> None:
    ranking = [{"index": index, "relevance_score": 1.0} for index in range(250)]
    server.behaviour = says(results=ranking, meta={"billed_units": {"search_units": 3}})
    await one.post(wanted(documents=["a"] * 250, top_n=None), path=RERANK)
    (call,) = (await one.settled()).values()
    assert call.usage.units == 3


NONSENSE: dict[str, dict[str, Any]] = {
    "a document that was not sent": {"results": [{"index": 3, "relevance_score": 1}]},
    "a document twice": {"results": [RESULTS[0], RESULTS[0]]},
    "no results": {"results": []},
    "no ranking": {"answer": 42},
    "units below zero": {"results": RESULTS, "meta": {"billed_units": {"search_units": -1}}},
}


@pytest.mark.parametrize("nonsense", NONSENSE.values(), ids=NONSENSE.keys())
async def test_a_server_that_answers_nonsense_costs_nobody_anything(
    one: Edge, server: Server, nonsense: dict[str, Any]
) -> None:
    server.behaviour = says(**nonsense)
    response = await one.post(wanted(), path=RERANK)
    assert response.status in (502, 503)
    (call,) = (await one.settled()).values()
    assert (call.amount_nanousd, call.usage.units) == (0, 0)


WRONG: dict[str, tuple[dict[str, Any], str, str | None]] = {
    "no query": ({"query": None}, "query", "missing_required_parameter"),
    "an empty document": ({"documents": ["a", ""]}, "documents[1]", "empty_string"),
    "no documents": ({"documents": []}, "documents", "empty_array"),
    "an image": ({"documents": [{"image": "x"}]}, "documents[0].image", "unsupported_parameter"),
    "too many": ({"documents": ["a"] * 2049}, "documents", "array_above_max_length"),
    "no room": ({"top_n": 0}, "top_n", None),
    "a stream": ({"stream": True}, "stream", None),
    "a model that generates": ({"model": "tale"}, "model", "model_not_supported"),
    "a model that moderates": ({"model": JUDGE}, "model", "model_not_supported"),
    "too long": ({"documents": ["a", "b" * 4200]}, "documents[1]", "context_length_exceeded"),
}


@pytest.mark.parametrize(("changes", "param", "code"), WRONG.values(), ids=WRONG.keys())
async def test_what_is_wrong_is_named_and_takes_nothing(
    one: Edge, changes: dict[str, Any], param: str, code: str | None
) -> None:
    response = await one.refused(wanted(**changes), path=RERANK)
    error = response.json["error"]
    assert (response.status, error["param"]) == (400, param)
    assert code is None or error["code"] == code


async def test_a_quote_has_the_units(one: Edge) -> None:
    sent = json.dumps({"url": RERANK, "body": wanted()}).encode()
    status, quoted = await ask(one.app, "POST", "/v1/quote", sent, API_KEY)
    assert status == 200
    assert_described(one.app, "POST", "/v1/quote", status, quoted)
    assert nanousd(quoted["models"][0]["max_usd"]) == BOUND * 10 + UNIT_NANOUSD
    assert nanousd(quoted["hold_usd"]) == BOUND * 10 + UNIT_NANOUSD + 1


# --- moderations ---------------------------------------------------------------------------------

TEXTS: dict[str, tuple[object, int]] = {
    "a text": ("I will find you.", 1),
    "an empty text": ("", 1),
    "texts": (["one", "two"], 2),
    "parts": ([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], 1),
}


@pytest.mark.parametrize("model", [JUDGE, None])
@pytest.mark.parametrize(("texts", "verdicts"), TEXTS.values(), ids=TEXTS.keys())
async def test_verdicts_are_passed_on_as_they_came(
    one: Edge, server: Server, texts: object, verdicts: int, model: str | None
) -> None:
    server.behaviour = says(id="modr-1", model="omni", results=[VERDICT] * verdicts)
    sent = {"input": texts} | ({"model": model} if model else {})
    response = await one.post(sent, path=MODERATIONS)
    assert (response.status, response.json["results"]) == (200, [VERDICT] * verdicts)
    assert ModerationCreateResponse.model_construct(**response.json).results
    (request,) = server.requests
    assert (request.path, request.body["input"]) == ("/v1/moderations", texts)
    (call,) = (await one.settled()).values()
    assert (call.amount_nanousd, call.status) == (0, "answered")


async def test_a_verdict_too_few_is_none(one: Edge, server: Server) -> None:
    server.behaviour = says(results=[VERDICT])
    response = await one.post({"model": JUDGE, "input": ["a", "b"]}, path=MODERATIONS)
    assert response.status in (502, 503)
    await one.settled()


async def test_an_image_for_a_model_that_takes_none_is_refused_by_name(one: Edge) -> None:
    part = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    response = await one.refused({"model": JUDGE, "input": [part]}, path=MODERATIONS)
    assert response.json["error"]["param"] == "input[0]"


async def test_a_moderation_that_names_no_model_where_none_moderates_says_so(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    async with edge(redis_server, redis, tmp_path) as without:
        error = (await without.post(b'{"input": "a"}', path=MODERATIONS)).json["error"]
        assert (error["code"], error["param"]) == ("model_not_found", "model")
        assert "can moderate" in error["message"]
