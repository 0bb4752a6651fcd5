"""Servers outside report more than they were asked for: what is held, charged, told and paid."""

from __future__ import annotations

import json
from pathlib import Path

import httpx2 as httpx
import pytest
from redis.asyncio import Redis

from billing.costs.attempts import tokens_above_hold
from billing.money import usd
from billing.types import CallStatus
from gateway.catalog.bootstrap import KEY_ID
from gateway.upstream import fake
from tests.gateway.api.asgi import ask
from tests.gateway.edge import FAR, Edge, body, edge
from tests.laws.test_charges_within_holds import (
    BUSY,
    INPUT,
    LYING,
    MOST,
    OUTPUT,
    QUICK,
    SLICE,
    opened_calls,
)
from tests.redis_server import RedisServer

DEAR = {"cost_input_nanousd_per_mtok": 10**13, "cost_output_nanousd_per_mtok": 10**13}
"""So that own workers are asked first."""


async def test_all_output_is_held_before_a_call_fails_over_to_a_server_outside(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    """Our own worker is asked first, for a slice of it; what is left does not cover the rest."""
    slice_only = {"budget_nanousd": 60 * INPUT + 2 * SLICE * OUTPUT, "budget_window": "total"}
    async with (
        fake.FakeUpstream(lambda _: LYING.script()) as outside,
        edge(
            *(redis_server, redis, tmp_path),
            gateway=QUICK,
            limits=slice_only,
            behaviour=lambda _: BUSY,
            outer=outside.address,
            outer_pool=DEAR,
        ) as one,
    ):
        refused = await one.post(body(max_tokens=MOST))
        assert (refused.status, refused.error_code) == (429, "insufficient_quota")
        assert one.upstream.requests and not outside.requests
        answered = await one.post(body(max_tokens=2 * SLICE))
        assert answered.status == 200 and outside.requests
        calls = await one.settled()
        call = calls[answered.headers["x-request-id"]]
        assert opened_calls(one)[call.rid].hold_nanousd < call.amount_nanousd
        assert call.amount_nanousd <= slice_only["budget_nanousd"]
        assert call.usage.completion == 2 * SLICE


@pytest.mark.parametrize("purse", [False, True], ids=["limits", "hard budget"])
async def test_who_names_no_max_tokens_is_told_how_much_is_held_and_what_to_set(
    purse: bool, redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    """All that the model may write is held at once where the call goes to a server outside."""
    little = 100 * INPUT + 100 * OUTPUT
    small = {} if purse else {"budget_nanousd": little, "budget_window": "total"}
    async with (
        fake.FakeUpstream(lambda _: LYING.script()) as outside,
        edge(
            *(redis_server, redis, tmp_path),
            gateway=QUICK,
            limits=small,
            outer=outside.address,
            outer_pool={"model": FAR},
        ) as one,
    ):
        if purse:
            owned = {"scope": f"key:{KEY_ID}", "name": "little", "limit_usd": usd(little)}
            made = json.dumps(owned | {"window": {"kind": "total"}, "hard": True}).encode()
            status, told = await ask(one.app, "POST", "/admin/v1/budgets", made, "admin")
            assert status == 201, told
        refused = await one.post(body(model=FAR, max_tokens=None))
        assert (refused.status, refused.error_code) == (429, "insufficient_quota")
        message = refused.json["error"]["message"]
        assert "and 2048 tokens of output" in message, message
        assert "'max_tokens' below 2048" in message, message
        assert (await one.post(body(model=FAR, max_tokens=16))).status == 200


# --- what operators see --------------------------------------------------------------------------


async def test_what_was_reported_above_the_hold_is_told_to_operators_and_is_our_cost(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    async with (
        fake.FakeUpstream(lambda _: LYING.script()) as outside,
        edge(redis_server, redis, tmp_path, gateway=QUICK, outer=outside.address) as one,
    ):
        response = await one.post(body(max_tokens=MOST))
        assert response.chunks[-1]["usage"]["completion_tokens"] == MOST
        (call,) = (await one.settled()).values()
        told = await _scraped(one)
    lines = [line for line in told.splitlines() if "above_hold" in line]
    prompt, completion = 150_000 - call.usage.prompt, 2_000 - MOST
    labels = 'model="tale",part="{}",pool="outside"'
    for part, count in {"prompt": prompt, "completion": completion}.items():
        sample = f"sluice_tokens_above_hold_total{{{labels.format(part)}}} {float(count)}"
        assert sample in lines, lines
    assert tokens_above_hold(call) == (prompt, completion)


async def _scraped(one: Edge) -> str:
    transport = httpx.ASGITransport(app=one.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        answer = await client.get("/metrics", headers={"authorization": "Bearer admin"})
    return answer.text


# --- reasoning -----------------------------------------------------------------------------------


async def test_tokens_of_reasoning_count_in_the_rates(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    """With 2,000 of them in each call a minute of 4,200 is over after two."""
    thinks = fake.plain_document(["a"], fake.usage_document(10, 2_000, reasoning=1_990))
    for names in (
        ("tokens_per_minute", "token_burst"),
        ("output_tokens_per_minute", "output_token_burst"),
    ):
        limits = dict.fromkeys(names, 4_200)
        folder = tmp_path / names[0]
        folder.mkdir()
        await redis.flushall()
        async with (
            fake.FakeUpstream(lambda _: thinks) as outside,
            edge(
                *(redis_server, redis, folder),
                gateway={"output_slice_tokens": 2_048},
                limits=limits,
                outer=outside.address,
            ) as one,
        ):
            sent = body(max_tokens=2_000, stream=False, stream_options=None)
            statuses = [(await one.post(sent)).status for _ in range(4)]
            calls = await one.settled()
        assert statuses == [200, 200, 429, 429]
        assert sum(call.usage.total for call in calls.values()) <= 4_200


async def test_what_failed_after_reasoning_that_its_caller_has_read_is_charged(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    thoughts = [
        fake.plain_thought("hm "),
        fake.plain_thought("well "),
        fake.plain_usage(9, 2, 0, 2),
    ]
    unseen = [fake.plain_usage(9, 500, 0, 500)]
    async with (
        fake.FakeUpstream(lambda _: BUSY) as outside,
        edge(redis_server, redis, tmp_path, gateway=QUICK, outer=outside.address) as one,
    ):
        for parts in (thoughts, unseen):
            outside.behaviour = lambda _, parts=parts: fake.stream(*parts, then=[fake.Reset()])
            one.upstream.behaviour = lambda _: BUSY
            response = await one.post(body(max_tokens=MOST))
            calls = await one.settled()
            call = calls[response.headers["x-request-id"]]
            assert call.status in (CallStatus.FAILED, CallStatus.REFUSED)
            if parts is thoughts:
                assert (response.status, call.reasoning) == (200, 2)
                assert call.amount_nanousd == 9 * INPUT + 2 * OUTPUT
            else:
                assert call.amount_nanousd == 0
