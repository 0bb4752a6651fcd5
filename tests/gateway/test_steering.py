"""The fields of vLLM's callers through the journey: who takes them, and what they cost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from gateway.upstream import fake
from tests.gateway.edge import COMPLETIONS, body, edge
from tests.redis_server import RedisServer

LONG = [{"role": "user", "content": "x" * 5000}]
"""More than the 4,096 tokens of the model's context, by its bytes."""


def ranked(token: str, token_id: int, rank: int | None) -> dict[str, Any]:
    said = {"token": token, "bytes": list(token.encode()), "token_id": token_id}
    likeliest = said | {"logprob": -0.5}
    return likeliest | {"rank": rank, "top_logprobs": [likeliest] if rank else []}


def scored_prompt(_: fake.Request) -> fake.Script:
    """`ab` as two tokens, and one of an answer."""
    answer = {"index": 0, "delta": {"content": "c"}, "finish_reason": "length"}
    answer["logprobs"] = {"content": [fake.scored("c")]}
    answer["prompt_logprobs"] = [ranked("a", 5, None), ranked("b", 6, 1)]
    return fake.stream(fake.own_event([answer], 2, 0, 1), fake.DONE)


@pytest.fixture
async def outside() -> AsyncIterator[fake.FakeUpstream]:
    document = fake.plain_document(["Fine."], fake.usage_document(3, 2))
    async with fake.FakeUpstream(lambda _: document) as running:
        yield running


async def test_a_prompt_that_is_truncated_fits_and_is_charged_by_what_was_read(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    async with edge(redis_server, redis, tmp_path) as one:
        refused = await one.post(body(messages=LONG))
        assert (refused.status, refused.error_code) == (400, "context_length_exceeded")
        response = await one.post(body(messages=LONG, truncate_prompt_tokens=100))
        assert response.chunks[-1]["usage"]["prompt_tokens"] == 10
        (request,) = one.upstream.requests
        assert request.body["truncate_prompt_tokens"] == 100
        (call,) = (await one.settled()).values()
        assert call.usage.prompt == 10


async def test_every_chunk_says_the_usage_so_far_where_it_is_asked_for(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    counted = {"include_usage": True, "continuous_usage_stats": True}
    async with edge(redis_server, redis, tmp_path) as one:
        response = await one.post(body(stream_options=counted))
        said = [
            chunk
            for chunk in response.chunks
            if chunk["choices"] and chunk["choices"][0]["delta"].get("content")
        ]
        assert [chunk["usage"]["completion_tokens"] for chunk in said] == [2, 4, 6, 8]
        plain = await one.post(body())
        assert all(chunk["usage"] is None for chunk in plain.chunks[:-1])
        await one.settled()


async def test_a_field_goes_to_the_pool_that_takes_it_and_to_no_other(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, outside: fake.FakeUpstream
) -> None:
    takes: dict[str, Any] = {"extra_fields": ["top_a"]}
    async with edge(redis_server, redis, tmp_path, outer=outside.address, outer_pool=takes) as one:
        asked = body(stream=False, stream_options=None)
        assert (await one.post(asked | {"top_a": 0.5, "top_k": 7})).status == 200
        (request,) = outside.requests
        assert (request.body["top_a"], request.body["top_k"]) == (0.5, 7)
        assert not one.upstream.requests
        refused = await one.post(asked | {"top_b": 0.5})
        assert (refused.status, refused.json["error"]["param"]) == (400, "top_b")
        await one.settled()


async def test_a_field_that_no_pool_takes_is_unknown(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    async with edge(redis_server, redis, tmp_path) as one:
        refused = await one.refused(body(top_a=0.5), path="/v1/chat/completions")
        assert (refused.status, refused.json["error"]["param"]) == (400, "top_a")


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_echo_has_the_log_probabilities_of_the_prompt(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, streamed: bool
) -> None:
    asked = {"model": "tale", "prompt": "ab", "max_tokens": 1, "echo": True, "logprobs": 1}
    async with edge(redis_server, redis, tmp_path, behaviour=scored_prompt) as one:
        response = await one.post(asked | {"stream": streamed}, path=COMPLETIONS)
        assert response.status == 200
        chunk = response.chunks[0] if streamed else response.json
        [choice] = chunk["choices"]
        assert choice["text"] == "abc"
        scores = choice["logprobs"]
        assert scores["tokens"] == ["a", "b", "c"]
        assert scores["token_logprobs"] == [None, -0.5, -0.5]
        assert scores["top_logprobs"][:2] == [None, {"b": -0.5}]
        assert scores["text_offset"] == [0, 1, 2]
        (request,) = one.upstream.requests
        assert request.body["prompt_logprobs"] == 1
        assert "echo" not in request.body
        await one.settled()


async def test_log_probabilities_of_a_prompt_come_in_vllms_words(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    async with edge(redis_server, redis, tmp_path, behaviour=scored_prompt) as one:
        asked = {"model": "tale", "prompt": "ab", "max_tokens": 1, "prompt_logprobs": 1}
        response = await one.post(asked, path=COMPLETIONS)
        said = [None, {"6": {"logprob": -0.5, "rank": 1, "decoded_token": "b"}}]
        assert response.json["choices"][0]["prompt_logprobs"] == said
        whole = body(stream=False, stream_options=None, prompt_logprobs=1)
        assert (await one.post(whole)).json["prompt_logprobs"] == said
        await one.settled()
