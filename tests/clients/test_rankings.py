"""Clients that rank and moderate, against a gateway before a server outside: OpenAI's, Cohere's of
both versions, and litellm in the shapes of Jina, vLLM and Cohere."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import openai
import pytest
from redis.asyncio import Redis

from gateway.upstream import fake
from tests.clients.marks import ROOT
from tests.gateway.edge import API_KEY, JUDGE, RANKER, Edge, edge
from tests.gateway.served import served
from tests.gateway.test_rerank import COHERES, POOLS, RESULTS, VERDICT, says
from tests.redis_server import RedisServer

COHERE = ROOT / ".venv-clients" / "cohere" / "bin" / "python"
RUNS_WITHIN_S = 120.0
RANKED = [[each["index"], each["relevance_score"]] for each in RESULTS]
TEXTS = ["a fox cub", "a red fox"]


@pytest.fixture
async def server() -> AsyncIterator[fake.FakeUpstream]:
    async with fake.FakeUpstream(says(results=RESULTS, meta=COHERES)) as running:
        yield running


@pytest.fixture
async def one(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, server: fake.FakeUpstream
) -> AsyncIterator[Edge]:
    pools = [{"base_url": f"{server.address}/v1"} | pool for pool in POOLS]
    async with edge(redis_server, redis, tmp_path, outer_pools=pools) as running:
        yield running


async def run(one: Edge, python: str, script: str) -> Any:
    """What a script of a client prints."""
    async with served(one.app) as base_url:
        said = {"SLUICE_BASE_URL": base_url, "SLUICE_KEY": API_KEY, "SLUICE_MODEL": RANKER}
        process = await asyncio.create_subprocess_exec(
            *(python, "-m", f"tests.clients.rankings.{script}"),
            cwd=ROOT,
            env=os.environ | said,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(RUNS_WITHIN_S):
                output, errors = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
    assert process.returncode == 0, errors.decode()[-4000:]
    return json.loads(output.splitlines()[-1])


@pytest.mark.client("openai", "It moderates a text, several texts and parts of one thing.")
async def test_openais_client_moderates(one: Edge, server: fake.FakeUpstream) -> None:
    async with (
        served(one.app) as url,
        openai.AsyncOpenAI(api_key=API_KEY, base_url=f"{url}/v1", max_retries=0) as client,
    ):
        parts: Any = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
        for texts, verdicts in (("one", 1), (["one", "two"], 2), (parts, 1)):
            server.behaviour = says(results=[VERDICT] * verdicts)
            answer = await client.moderations.create(model=JUDGE, input=texts)
            assert [each.flagged for each in answer.results] == [True] * verdicts
            assert answer.results[0].categories.violence
            assert answer.results[0].category_scores.violence == 0.9
            assert (answer.model, answer.id[:5]) == (JUDGE, "modr-")
        server.behaviour = says(results=[VERDICT])
        assert (await client.moderations.create(input="one")).model == JUDGE
        with pytest.raises(openai.BadRequestError) as wrong:
            await client.moderations.create(model=JUDGE, input=[])
        assert wrong.value.param == "input"
        with pytest.raises(openai.BadRequestError, match="moderat"):
            await client.moderations.create(model=RANKER, input="one")
    calls = (await one.settled()).values()
    assert [call.amount_nanousd for call in calls] == [0] * 4


@pytest.mark.client("litellm", "It ranks documents in the shapes of Jina, of vLLM and of Cohere.")
async def test_litellm_ranks_in_three_shapes(one: Edge, server: fake.FakeUpstream) -> None:
    found = await run(one, sys.executable, "litellm_calls")
    for shape in ("jina_ai", "hosted_vllm", "cohere", "bare"):
        assert found[shape]["results"] == RANKED, shape
    for shape in ("jina_ai", "hosted_vllm"):
        assert found[shape]["documents"] == TEXTS, shape
    assert found["bare"]["documents"] == [None, None]
    assert found["wrong_key"] == "AuthenticationError"
    assert len(await one.settled()) == len(server.requests) == 4


@pytest.mark.long
@pytest.mark.client(
    "cohere",
    "It ranks documents by both versions of its API.",
    refused="`rank_fields`: documents are text here.",
)
async def test_coheres_client_ranks(one: Edge, server: fake.FakeUpstream) -> None:
    assert COHERE.exists(), "requirements/install.sh client cohere"
    found = await run(one, str(COHERE), "cohere_calls")
    for version, documents in (("v1", True), ("v1_objects", True), ("v2", False)):
        assert found[version] == {
            "results": RANKED,
            "documents": [documents] * 2,
            "search_units": 1.0,
        }, version
    assert found["rank_fields"] == ["BadRequestError", 400, "rank_fields"]
    assert found["no_documents"] == ["BadRequestError", 400, "documents"]
    assert found["unknown"] == ["NotFoundError", 404, "model"]
    assert found["wrong_key"] == ["UnauthorizedError", 401, None]
    assert len(server.requests) == 3
    assert {call.usage.units for call in (await one.settled()).values()} == {1}
