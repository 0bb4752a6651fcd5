"""docs/operations.md says what the routes answer: each health route, check and column.
The reference says which metrics there are."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2 as httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from redis.asyncio import Redis

from gateway.commands.usage import DIMENSIONS
from reference.metrics import metrics
from tests.gateway.edge import Edge, body, edge
from tests.redis_server import RedisServer

PAGE = (Path(__file__).parents[3] / "docs" / "operations.md").read_text()


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


async def get(one: Edge, path: str, key: str | None = None) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    transport = httpx.ASGITransport(app=one.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as http:
        return await http.get(path, headers=headers)


def rows(heading: str, page: str = PAGE) -> list[list[str]]:
    """The cells of the first table behind a line that begins so."""
    lines = page[f"\n{page}".index(f"\n{heading}") :].splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith("|"))
    table = []
    for line in lines[begin + 2 :]:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split("|")])
    return table


async def test_health_routes_answer_as_the_page_says_to_anybody(one: Edge) -> None:
    told = {row[0].strip("`"): row[1] for row in rows("## Health")}
    described = one.app.openapi()["paths"]
    health = {
        f"GET {path}"
        for path, how in described.items()
        if "health" in str(how["get"]["tags"] if "get" in how else "")
    }
    assert set(told) == health - {"GET /metrics"}
    for route, says in told.items():
        answer = await get(one, route.removeprefix("GET "))
        assert says.startswith(f"{answer.status_code} "), (route, answer.text)
        assert f'"status": "{answer.json()["status"]}"' in says


async def test_checks_are_those_of_the_page(one: Edge) -> None:
    checks = (await get(one, "/readyz")).json()["checks"]
    assert [row[0].strip("`") for row in rows("The `checks` of")] == list(checks)


async def test_metrics_are_those_of_the_reference_with_their_kinds_and_labels(one: Edge) -> None:
    await one.post(body())
    await one.post(body(model="nothing"))
    answer = await get(one, "/metrics", "admin")
    found = {}
    for family in text_string_to_metric_families(answer.text):
        if family.name.startswith("sluice_"):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            labels = {label for sample in family.samples for label in sample.labels} - {"le"}
            found[name] = (family.type, labels)
    told = {
        row[0].strip("`"): (row[1], set(re.findall(r"`(\w+)`", row[2])))
        for row in rows("# Metrics", metrics())
    }
    named = {name: kind for name, (kind, _) in found.items()}
    assert {name: kind for name, (kind, _) in told.items()} == named
    for name, (_, labels) in found.items():
        assert labels in (told[name][1], set()), name


async def test_columns_and_dimensions_of_usage_are_those_of_the_page(one: Edge) -> None:
    answer = await get(one, "/admin/v1/usage?group_by=org&bucket_width=1d&format=csv", "admin")
    (names,) = csv.reader(io.StringIO(answer.text))
    for name in (*names, *DIMENSIONS):
        assert f"`{name}`" in PAGE
    parameters = one.app.openapi()["paths"]["/admin/v1/usage"]["get"]["parameters"]
    told = {name for row in rows("The same over HTTP") for name in re.findall(r"`(\w+)`", row[0])}
    assert told == {parameter["name"] for parameter in parameters}
