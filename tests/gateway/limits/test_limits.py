"""Limits from the outside: whatever scope and dimension one is set for, it binds there."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from billing.limits import keys as shards
from gateway.catalog.bootstrap import KEY_ID, ORGANIZATION_ID, PROJECT_ID
from tests.billing.limits.harness import open_shard
from tests.gateway.api.asgi import ask
from tests.gateway.edge import (
    API_KEY,
    COMPLETIONS,
    EMBEDDINGS,
    SHARD,
    Edge,
    Response,
    body,
    edge,
    story,
)
from tests.redis_server import RedisServer

OWNERS = (f"key:{KEY_ID}", f"project:{PROJECT_ID}", f"org:{ORGANIZATION_ID}")
ALICE = {"safety_identifier": "alice"}


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


async def limit(one: Edge, scope: str, **limits: int | None) -> Any:
    raw = json.dumps(limits).encode()
    status, told = await ask(one.app, "PUT", f"/admin/v1/limits/{scope}", raw, "admin")
    assert status == 200, told
    return told


async def statuses(one: Edge, *bodies: dict[str, Any]) -> list[int | None]:
    return [(await one.post(sent)).status for sent in bodies]


@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("narrow", ["", "/model:tale", "/user:*", "/user:alice"])
@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"requests_per_minute": 1}, "requests per minute"),
        ({"tokens_per_minute": 100}, "tokens per minute"),
        ({"input_tokens_per_minute": 45}, "input tokens per minute"),
        ({"output_tokens_per_minute": 70}, "output tokens per minute"),
        ({"concurrency": 0}, "calls at once"),
    ],
)
async def test_g29_each_limit_binds_in_the_scope_it_is_set_for(
    one: Edge, owner: str, narrow: str, limits: dict[str, int], words: str
) -> None:
    """And the refusal names both (LiteLLM#4314 named another limit than the one that was hit)."""
    one.upstream.behaviour = lambda _: story(frames=32)
    await limit(one, owner + narrow, **limits)
    sent = body(**ALICE)
    refused = await one.post(sent)
    while refused.status == 200:
        refused = await one.post(sent)
    assert (refused.status, refused.error_code) == (429, "rate_limit_exceeded")
    message = refused.json["error"]["message"]
    assert message.startswith(f"Rate limit reached for {owner}{narrow.split(':')[0]}")
    assert words in message
    assert int(refused.headers["retry-after"]) >= 1
    await one.settled()


async def test_every_answer_and_refusal_tells_what_is_left(one: Edge) -> None:
    await limit(one, OWNERS[2], requests_per_minute=60, request_burst=2, tokens_per_minute=6_000)
    await limit(one, f"{OWNERS[0]}/model:tale", output_tokens_per_minute=1_000)
    for left in (1, 0):
        answered = await one.post(body(stream=bool(left), stream_options=None))
        assert answered.headers["x-ratelimit-limit-requests"] == "60"
        assert answered.headers["x-ratelimit-remaining-requests"] == str(left)
        assert answered.headers["x-ratelimit-limit-output-tokens"] == "1000"
    refused = await one.post(body())
    assert refused.status == 429
    assert refused.headers["x-ratelimit-remaining-requests"] == "0"
    assert refused.headers["x-ratelimit-reset-requests"].endswith("s")
    assert int(refused.headers["x-ratelimit-remaining-tokens"]) > 5_000
    assert '"requests";q=60;w=60' in refused.headers["ratelimit-policy"]
    assert '"requests";r=0;t=' in refused.headers["ratelimit"]


async def test_end_users_have_a_bucket_each_and_some_have_their_own(one: Edge) -> None:
    await limit(one, f"{OWNERS[2]}/user:*", requests_per_minute=1)
    await limit(one, f"{OWNERS[2]}/user:bob", requests_per_minute=2)
    alice, bob, eve = (body(user=name) for name in ("alice", "bob", "eve"))
    assert await statuses(one, alice, alice, eve, eve) == [200, 429, 200, 429]
    assert await statuses(one, bob, bob, bob) == [200, 200, 429]
    await limit(one, f"{OWNERS[2]}/user:zoe", requests_per_minute=2)
    await limit(one, f"{OWNERS[2]}/user:zoe", requests_per_minute=None)
    assert await statuses(one, body(user="zoe"), body(user="zoe")) == [200, 429]


@pytest.mark.parametrize("which", ["*", "alice"])
@pytest.mark.parametrize(
    ("path", "sent", "param"),
    [
        ("/v1/chat/completions", body(), "safety_identifier"),
        (COMPLETIONS, {"model": "tale", "prompt": "Once"}, "user"),
        (EMBEDDINGS, {"model": "vectors", "input": "Once"}, "user"),
    ],
)
async def test_g33_cap_of_end_users_is_not_evaded_by_naming_none(
    one: Edge, which: str, path: str, sent: dict[str, Any], param: str
) -> None:
    await limit(one, f"{OWNERS[1]}/user:{which}", requests_per_minute=600)
    for nobody in ({}, {"user": ""}, {"user": None}):
        refused = await one.refused(sent | nobody, path=path)
        assert (refused.status, refused.error_code) == (400, "end_user_required")
        assert refused.json["error"]["param"] == param
    if path != EMBEDDINGS:
        assert (await one.post(sent | {"user": "alice"}, path=path)).status == 200
        await limit(one, f"{OWNERS[1]}/user:{which}", requests_per_minute=None)
        assert (await one.post(sent, path=path)).status == 200, "nothing binds any more"


async def test_names_of_end_users_are_nobodys_business(one: Edge) -> None:
    """Redis, spool and stream know a digest."""
    name = "Jane Doe <jane@example.com> \u00fc/*"
    await limit(one, f"{OWNERS[2]}/user:*", requests_per_minute=1)
    assert await statuses(one, body(user=name), body(user=name)) == [200, 429]
    for key in await one.redis.keys("*"):
        assert b"jane" not in key.lower()
    assert b"jane" not in b"".join(p.read_bytes() for p in one.spool_root.rglob("*.log")).lower()


async def test_model_that_auto_chose_is_the_one_that_is_limited(one: Edge) -> None:
    await limit(one, f"{OWNERS[0]}/model:tale", requests_per_minute=1)
    assert await statuses(one, body(model="auto"), body(model="tale")) == [200, 429]


@pytest.mark.parametrize("narrow", ["", "/model:tale", "/user:*"])
@pytest.mark.parametrize(
    ("limits", "asked", "most"),
    [
        ({"output_tokens_per_minute": 10}, "64 output tokens", "10"),
        ({"output_tokens_per_minute": 90, "output_token_burst": 63}, "64 output tokens", "63"),
        ({"input_tokens_per_minute": 2}, "input tokens", "2"),
        ({"tokens_per_minute": 70}, " tokens", "70"),
    ],
)
async def test_call_that_never_fits_is_refused_for_good_with_the_numbers(
    one: Edge, narrow: str, limits: dict[str, int], asked: str, most: str
) -> None:
    await limit(one, OWNERS[0] + narrow, **limits)
    refused: Response = await one.post(body(**ALICE))
    assert (refused.status, refused.error_code) == (400, "request_too_large_for_limit")
    message = refused.json["error"]["message"]
    assert asked in message and f"never have more than {most} at once" in message
    assert f"{OWNERS[0]}{narrow.split(':')[0]}" in message
    counted = int(message.split(" asks for ")[1].split()[0])
    assert counted > int(most)


async def test_key_is_told_the_limits_of_models_and_end_users(one: Edge) -> None:
    await limit(one, f"{OWNERS[2]}/user:*", requests_per_minute=5)
    await limit(one, f"{OWNERS[0]}/model:tale", input_tokens_per_minute=7, input_token_burst=9)
    _, told = await ask(one.app, "GET", "/v1/key", b"", API_KEY)
    assert told["end_user_required"] is True
    narrow = {limits["scope"]: limits for limits in told["narrow_limits"]}
    assert narrow[f"{OWNERS[2]}/user:*"]["requests_per_minute"] == 5
    assert narrow[f"{OWNERS[0]}/model:tale"]["input_token_burst"] == 9
    _, listed = await ask(one.app, "GET", "/admin/v1/limits", b"", "admin")
    assert {limits["scope"] for limits in listed["data"]} >= set(narrow)


@pytest.mark.parametrize(
    ("scope", "sent", "status", "param"),
    [
        (f"{OWNERS[0]}/model:nothing", {"concurrency": 1}, 404, None),
        ("org:nobody/user:*", {"concurrency": 1}, 404, None),
        (f"{OWNERS[0]}/colour:red", {"concurrency": 1}, 400, "scope"),
        (f"{OWNERS[0]}/user:", {"concurrency": 1}, 400, "scope"),
        ("team:7", {"concurrency": 1}, 400, "scope"),
        (f"{OWNERS[0]}/user:a", {"concurrency": -1}, 400, "concurrency"),
        (f"{OWNERS[0]}/user:a", {"input_token_burst": 0}, 400, "input_token_burst"),
        (f"{OWNERS[0]}/user:a", {"output_tokens_per_minute": 9}, 200, None),
        (f"{OWNERS[0]}/user:a", {"output_tokens_per_minute": "9"}, 400, "output_tokens_per_minute"),
        (f"{OWNERS[0]}/user:a", {"output_tokens_per_minute": 1.5}, 400, "output_tokens_per_minute"),
        (f"{OWNERS[0]}/user:a", {"budget_nanousd": 1}, 400, "budget_nanousd"),
    ],
)
async def test_wrong_limits_are_refused_in_words(
    one: Edge, scope: str, sent: dict[str, Any], status: int, param: str | None
) -> None:
    raw = json.dumps(sent).encode()
    found, told = await ask(one.app, "PUT", f"/admin/v1/limits/{scope}", raw, "admin")
    assert found == status, told
    if status == 400:
        assert told["error"]["param"] == param


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({"mode": "local", "spend_cap_usd": "0.5"}, 200),
        ({"mode": "deny"}, 200),
        ({"mode": None}, 200),
        ({"mode": "local"}, 400),
        ({"mode": "deny", "spend_cap_usd": "1"}, 400),
        ({"mode": "local", "spend_cap_usd": "-1"}, 400),
        ({"mode": "open"}, 400),
        ({}, 400),
    ],
)
async def test_outage_mode_is_declared_whole(one: Edge, sent: dict[str, Any], status: int) -> None:
    path, raw = f"/admin/v1/outages/{ORGANIZATION_ID}", json.dumps(sent).encode()
    found, told = await ask(one.app, "PUT", path, raw, "admin")
    assert found == status, told
    _, listed = await ask(one.app, "GET", "/admin/v1/outages", b"", "admin")
    kept = status == 200 and sent["mode"] is not None
    assert [row["mode"] for row in listed["data"]] == ([sent["mode"]] if kept else [])


async def test_g32_budget_that_was_saved_is_the_one_that_is_enforced(one: Edge) -> None:
    async def put(path: str, sent: dict[str, Any]) -> Any:
        raw = json.dumps(sent).encode()
        return await ask(one.app, "PUT", f"/admin/v1/budgets/{path}", raw, "admin")

    for scope in OWNERS:
        _, told = await put(scope, {"limit_usd": "0.000000001"})
        assert told["limit_usd"] == "0.000000001"
        refused = await one.post(body())
        assert (refused.status, refused.error_code) == (429, "insufficient_quota")
        assert scope in refused.json["error"]["message"]
        _, told = await put(scope, {"limit_usd": "1"})
        assert (told["limit_usd"], told["held_usd"]) == ("1.00", "0.00")
        assert (await one.post(body())).status == 200, "nothing is refused before its time"


@pytest.mark.parametrize("mode", ["deny", "local"])
@pytest.mark.parametrize(
    "limits", [{"requests_per_minute": 9}, {"tokens_per_minute": 9000}], ids=str
)
async def test_limited_tenant_whose_shard_is_being_rebuilt_is_told_so_or_admitted_here(
    one: Edge, mode: str, limits: dict[str, int]
) -> None:
    """Each such call was a 500, and under an idempotency key stayed one. What ran under keys is not
    known before the shard is rebuilt: a call with one waits for that in either mode."""
    await limit(one, OWNERS[0], **limits)
    declared = json.dumps(
        {"mode": mode, "spend_cap_usd": "1"} if mode == "local" else {"mode": mode}
    )
    path = f"/admin/v1/outages/{ORGANIZATION_ID}"
    assert (await ask(one.app, "PUT", path, declared.encode(), "admin"))[0] == 200
    await one.redis.delete(shards.epoch_key(SHARD))
    keyed = {"idempotency-key": "again"}
    unknown = await one.post(body(), headers=keyed)
    assert (unknown.status, unknown.error_code) == (503, "server_is_overloaded")
    told = await one.post(body())
    assert told.status == (503 if mode == "deny" else 200)
    if mode == "local":
        assert "x-ratelimit-limit-requests" in told.headers or "tokens_per_minute" in limits
        return
    assert told.error_code == "server_is_overloaded"
    assert told.json["error"]["message"] == "The limiter is being rebuilt from the ledger."
    assert int(told.headers["retry-after"]) >= 1
    assert not one.upstream.requests
    await open_shard(one.holds, shard=SHARD)
    again = await one.post(body(), headers=keyed)
    assert (again.status, "idempotent-replayed" in again.headers) == (200, False)
    assert len(await one.settled()) == 1
