"""`/v1/tokenize` and `/v1/detokenize`: who may, what is answered, every exact no."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from redis.asyncio import Redis

from gateway.call.prompt_tokens import LARGE_BYTES
from gateway.catalog.tokenizers import CheckpointTokens
from gateway.public.tokenize import CHARACTERS_MAX
from tests.gateway.catalog.served import Served
from tests.gateway.edge import API_KEY, Edge, edge
from tests.redis_server import RedisServer

FOLDER = Path(__file__).parents[3] / "models" / "sluice-small"
SAID = [{"role": "user", "content": "Tell me a story."}]


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    """With the model `small` that has a checkpoint; `tale` is an external server's."""
    async with edge(redis_server, redis, tmp_path) as running:
        small = {"context_tokens": 512, "max_output_tokens": 9, "size_rank": 1, "quality": 0.5}
        serving = Served(running.parts.tenants, lambda: 1.79e9)
        await serving.put_model("small", small | {"path": str(FOLDER)})
        await running.parts.catalog.refresh()
        yield running


async def posted(one: Edge, path: str, wanted: Any, key: str = API_KEY) -> httpx.Response:
    transport = httpx.ASGITransport(app=one.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        body = {"content": wanted} if isinstance(wanted, bytes) else {"json": wanted}
        headers = {"authorization": f"Bearer {key}"}
        return await client.post(f"/v1/{path}", headers=headers, **body)


async def test_conversation_is_answered_in_the_shape_of_vllm(one: Edge) -> None:
    found = (await posted(one, "tokenize", {"model": "small", "messages": SAID})).json()
    ids = CheckpointTokens(FOLDER).conversation_ids(SAID)
    shape = {"count": len(ids), "max_model_len": 512, "tokens": ids, "token_strs": None}
    assert found == shape


async def test_tools_and_their_calls_are_tokens_too(one: Edge) -> None:
    tool = {"type": "function", "function": {"name": "weather"}}
    call = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    told = [
        *SAID,
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "rain"},
    ]
    wanted = {"model": "small", "messages": told, "tools": [tool]}
    found = (await posted(one, "tokenize", wanted)).json()
    plain = [SAID[0], told[1] | {"content": ""}, told[2]]
    assert found["tokens"] == CheckpointTokens(FOLDER).conversation_ids(plain, [tool])
    wanted = {"model": "small", "prompt": "x", "tools": [tool]}
    assert (await posted(one, "tokenize", wanted)).json()["error"]["param"] == "tools"


async def test_prompt_for_the_answer_is_left_out_on_request(one: Edge) -> None:
    wanted = {"model": "small", "messages": SAID, "add_generation_prompt": False}
    wanted |= {"return_token_strs": True}
    found = (await posted(one, "tokenize", wanted)).json()
    assert found["token_strs"][0] == "<|begin|>"
    assert found["token_strs"][-1] == "<|end|>"
    assert found["count"] == CheckpointTokens(FOLDER).count(SAID) - 1


async def test_large_text_comes_back_as_it_was(one: Edge) -> None:
    text = "狐狸 and the fox. " * LARGE_BYTES
    found = (await posted(one, "tokenize", {"model": "small", "prompt": text})).json()
    assert found["count"] == len(found["tokens"]) > LARGE_BYTES
    wanted = {"model": "small", "tokens": found["tokens"]}
    assert (await posted(one, "detokenize", wanted)).json() == {"prompt": text}


async def test_text_beyond_its_bound_is_refused(one: Edge) -> None:
    for said in (
        {"prompt": "x" * (CHARACTERS_MAX + 1)},
        {"messages": [SAID[0] | {"content": "x" * CHARACTERS_MAX}] * 2},
    ):
        answer = await posted(one, "tokenize", {"model": "small", **said})
        error = answer.json()["error"]
        assert answer.status_code == 400
        assert (error["param"], error["code"]) == (*said, "string_above_max_length")


async def test_nothing_is_taken_and_nothing_metered(one: Edge) -> None:
    before = await one.money_keys()
    await posted(one, "tokenize", {"model": "small", "messages": SAID})
    assert await one.money_keys() == before
    assert one.spooled() == ({}, {})


async def test_stranger_is_refused(one: Edge) -> None:
    for path in ("tokenize", "detokenize"):
        response = await posted(one, path, b"not even JSON", key="sk-sluice-nobody")
        assert (response.status_code, response.json()["error"]["code"]) == (401, "invalid_api_key")


WRONG: dict[str, tuple[str, Any, int, str | None, str | None]] = {
    "no JSON": ("tokenize", b"{", 400, None, None),
    "no model": ("tokenize", {"prompt": "x"}, 400, "model", "missing_required_parameter"),
    "unknown": ("tokenize", {"model": "no", "prompt": "x"}, 404, "model", "model_not_found"),
    "auto": ("tokenize", {"model": "auto", "prompt": "x"}, 400, "model", None),
    "external": (
        "tokenize",
        {"model": "tale", "messages": SAID},
        400,
        "model",
        "tokenizer_not_available",
    ),
    "neither": ("tokenize", {"model": "small"}, 400, "prompt", "missing_required_parameter"),
    "both": (
        "tokenize",
        {"model": "small", "prompt": "x", "messages": SAID},
        400,
        "prompt",
        "missing_required_parameter",
    ),
    "unknown field": ("tokenize", {"model": "small", "prompt": "x", "y": 1}, 400, "y", None),
    "prompt is a number": (
        "tokenize",
        {"model": "small", "prompt": 5},
        400,
        "prompt",
        "invalid_type",
    ),
    "a field of the other kind": (
        "tokenize",
        {"model": "small", "prompt": "x", "add_generation_prompt": True},
        400,
        "add_generation_prompt",
        "unsupported_parameter",
    ),
    "unknown role": (
        "tokenize",
        {"model": "small", "messages": [{"role": "robot", "content": "x"}]},
        400,
        "messages[0].role",
        "invalid_value",
    ),
    "no tokens": ("detokenize", {"model": "small"}, 400, "tokens", "missing_required_parameter"),
    "tokens are text": (
        "detokenize",
        {"model": "small", "tokens": ["a"]},
        400,
        "tokens",
        "invalid_type",
    ),
    "a token is true": (
        "detokenize",
        {"model": "small", "tokens": [True]},
        400,
        "tokens",
        "invalid_type",
    ),
    "a token below zero": (
        "detokenize",
        {"model": "small", "tokens": [-1]},
        400,
        "tokens",
        "invalid_type",
    ),
    "a token beyond the vocabulary": (
        "detokenize",
        {"model": "small", "tokens": [2**31 - 1]},
        400,
        "tokens",
        "invalid_value",
    ),
}


async def test_every_no_is_exact(one: Edge) -> None:
    for name, (path, wanted, status, param, code) in WRONG.items():
        response = await posted(one, path, wanted)
        error = response.json()["error"]
        found = (response.status_code, error["param"], error["code"])
        assert found == (status, param, code), name
        assert error.keys() == {"message", "type", "param", "code"}
        assert error["message"], name
