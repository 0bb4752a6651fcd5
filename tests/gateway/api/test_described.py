"""`/openapi.json` tells of every route there is, those in raw ASGI too."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from fastapi import FastAPI
from jsonschema import Draft202012Validator
from redis.asyncio import Redis

from gateway.api.openapi.bodies import BODIES, EXAMPLES
from gateway.api.openapi.document import OPEN, DescribedApi
from gateway.api.openapi.generated_answers import GENERATED_ANSWERS
from gateway.audio import speech, transcription
from gateway.images import edits, generations
from gateway.scores import moderations, rerank
from gateway.server.routes import call_routes, form_routes
from gateway.wire.anthropic import body as messages
from gateway.wire.bodies import completions, embeddings, tokenize
from gateway.wire.bodies.chat_body import CHAT
from gateway.wire.bodies.checks import Check
from gateway.wire.responses import body as responses
from tests.gateway.edge import Edge, edge
from tests.redis_server import RedisServer


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


FREE = ("/admin/v1/models/apply", "/admin/v1/pools/{name}")
"""A document of tables, and any fields of a pool."""
PAGES = ("/console", "/docs", "/openapi.json", "/internal/")
"""For people, the description itself, and for workers alone."""
FILES = (".csv", ".pdf", ".xml", ".beancount", "/speech")
TABLES: dict[str, Mapping[str, Check]] = {
    "/v1/chat/completions": CHAT.checks,
    "/v1/completions": completions.COMPLETION.checks,
    "/v1/embeddings": embeddings.READER.checks,
    "/v1/rerank": rerank.READER.checks,
    "/v2/rerank": rerank.READER.checks,
    "/v1/moderations": moderations.READER.checks,
    "/v1/audio/speech": speech.READER.checks,
    "/v1/audio/transcriptions": transcription.TRANSCRIPTION.checks,
    "/v1/audio/translations": transcription.TRANSLATION.checks,
    "/v1/images/generations": generations.READER.checks,
    "/v1/images/edits": edits.READER.checks,
    "/v1/responses": responses.RESPONSE.checks,
    "/v1/responses/input_tokens": responses.COUNT.checks,
    "/v1/messages": messages.MESSAGE.checks,
    "/v1/messages/count_tokens": messages.COUNT.checks,
    "/v1/tokenize": tokenize.TOKENIZE.checks,
    "/v1/detokenize": tokenize.DETOKENIZE.checks,
}


def routes_of(edge: Edge) -> set[tuple[str, str]]:
    """Every method and path that the application serves, whoever serves it."""
    found = set()
    for route in flat(edge.app.router.routes):
        path = route.path.replace(":path}", "}")
        if path != "/" and not path.startswith(PAGES):
            found |= {(method.lower(), path) for method in route.methods}
    return found


def flat(routes: Iterable[Any]) -> Iterator[Any]:
    for route in routes:
        inner = getattr(route, "effective_candidates", None)
        if inner is None:
            yield route
        else:
            yield from flat(inner())


async def test_description_lists_every_route_and_no_other(one: Edge) -> None:
    described: dict[str, Any] = one.app.openapi()["paths"]
    told = {(method, path) for path, operations in described.items() for method in operations}
    assert told == routes_of(one)
    assert len(told) > 45


async def test_every_route_tells_its_answer_its_errors_and_its_key(one: Edge) -> None:
    for path, operations in one.app.openapi()["paths"].items():
        for method, operation in operations.items():
            where = f"{method} {path}"
            responses = operation["responses"]
            answers = [responses[status] for status in responses if status.startswith("2")]
            for response in answers:
                if path == "/metrics" or path.endswith(FILES):
                    continue  # text, and what is no JSON
                schema = response["content"]["application/json"]["schema"]
                for each in schema.get("anyOf", [schema]):
                    assert "$ref" in each or each["properties"], where
            errors = {status for status in responses if status[0] in "45"}
            assert "500" in errors, where
            assert path in OPEN or (operation["security"] and "401" in errors), where


async def test_every_body_has_real_types(one: Edge) -> None:
    schema = one.app.openapi()
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            if "requestBody" in operation:
                (content,) = operation["requestBody"]["content"].values()
                told = content["schema"]
                properties = resolved(schema, told).get("properties", {})
                assert properties or path in FREE, path
                assert all(properties.values()), path


def resolved(schema: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    if "anyOf" in told:
        return resolved(schema, told["anyOf"][0])
    if "$ref" not in told:
        return told
    found: dict[str, Any] = schema["components"]["schemas"][told["$ref"].rpartition("/")[2]]
    return found


@pytest.mark.parametrize("path", TABLES)
def test_bodies_read_by_hand_are_described_as_they_are_checked(path: str) -> None:
    assert BODIES[path]["properties"].keys() == TABLES[path].keys()


@pytest.mark.parametrize("path", BODIES)
def test_example_of_a_body_is_one(path: str) -> None:
    Draft202012Validator(BODIES[path]).validate(EXAMPLES[path])


async def test_every_route_that_calls_a_model_has_a_body_and_an_answer(one: Edge) -> None:
    calling = {*call_routes(one.parts.catalog), *form_routes(one.parts.catalog)}
    assert calling <= BODIES.keys()
    assert calling <= GENERATED_ANSWERS.keys()


async def test_description_is_valid_openapi(one: Edge) -> None:
    schema = one.app.openapi()
    for name, component in schema["components"]["schemas"].items():
        Draft202012Validator.check_schema(component)
        for reference in references(component):
            assert reference in schema["components"]["schemas"], f"{name}: {reference}"


def references(told: Any) -> Iterator[str]:
    if isinstance(told, dict):
        if "$ref" in told:
            yield told["$ref"].rpartition("/")[2]
        told = list(told.values())
    if isinstance(told, list):
        for part in told:
            yield from references(part)


def test_those_who_ask_at_once_get_one_whole_description(monkeypatch: pytest.MonkeyPatch) -> None:
    """FastAPI sets what it has made before the rest is added."""
    app = DescribedApi(lambda _: nullcontext())
    made: list[FastAPI] = []

    def slow(self: FastAPI) -> dict[str, Any]:
        made.append(self)
        self.openapi_schema = {"paths": {}}
        sleep(0.05)
        return self.openapi_schema

    monkeypatch.setattr(FastAPI, "openapi", slow)
    with ThreadPoolExecutor(4) as pool:
        told = list(pool.map(lambda _: list(app.openapi()), range(4)))
    assert (made, told) == ([app], [["paths", "components"]] * 4)


async def test_the_description_is_made_once_and_is_json(one: Edge) -> None:
    assert one.app.openapi() is one.app.openapi()
    found = json.loads(json.dumps(one.app.openapi()))
    assert "/v1/models" in found["paths"]
    assert "ApiError" in found["components"]["schemas"]
