"""The whole journey in one process: whatever the client, the upstream and Redis do, it balances."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from redis.asyncio import Redis

from billing.money import usd
from billing.prices.book import PriceBook
from billing.spool.spool import SpoolFull
from billing.types import CallStatus
from gateway.catalog.catalog import Catalog
from gateway.upstream import fake
from tests.gateway.edge import (
    CHAT,
    OUTPUT_PRICE,
    Edge,
    Response,
    body,
    edge,
    story,
)
from tests.gateway.outages import declare
from tests.redis_server import RedisServer

PROMPT_TOKENS = 10
"""What the fake says every prompt has, at 1000 nano-USD each."""


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


# --- answers -------------------------------------------------------------------------------------


async def test_stream_ends_with_usage_cost_and_done(one: Edge) -> None:
    response = await one.post(body())
    assert (response.status, response.events[-1]) == (200, "[DONE]")
    usage = response.chunks[-1]["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (10, 8)
    (call,) = (await one.settled()).values()
    assert call.amount_nanousd == PROMPT_TOKENS * 1000 + 8 * 5000
    assert usage["cost"] == "0.00005"
    assert (call.status, call.finish_reason, call.source) == ("answered", "stop", "exact")


async def test_whole_answer_carries_cost_and_route_in_headers(one: Edge) -> None:
    response = await one.post(body(stream=False, stream_options=None))
    assert response.json["choices"][0]["message"]["content"] == "word1 word2 word3 word4 "
    assert response.headers["x-sluice-cost-usd"] == "0.00005"
    assert response.headers["x-sluice-pool"] == "tale-reserved"
    assert response.headers["x-request-id"].startswith("req_")
    await one.settled()


async def test_worker_is_told_the_call_its_secret_and_the_cache_salt(one: Edge) -> None:
    await one.post(body(temperature=0.5, stop=["x"]))
    (request,) = one.upstream.requests
    assert request.headers["x-sluice-worker-secret"] == "worker-secret"
    assert request.body["sluice"]["cache_salt"] == "org_default"
    assert (request.body["max_tokens"], request.body["temperature"]) == (64, 0.5)


# --- refused before anything was taken -----------------------------------------------------------

NOT_ADMITTED: dict[str, tuple[bytes | dict[str, Any], dict[str, str], int, str | None]] = {
    "broken JSON": (b"{", {}, 400, None),
    "wrong type": (body(max_tokens="x"), {}, 400, "invalid_type"),
    "unknown model": (body(model="nope"), {}, 404, "model_not_found"),
    "unpriced model": (body(model="free"), {}, 400, "model_not_priced"),
    "too long": (body(max_tokens=5000), {}, 400, "context_length_exceeded"),
    "no key": (body(), {"authorization": ""}, 401, "invalid_api_key"),
    "wrong key": (body(), {"authorization": "Bearer nope"}, 401, "invalid_api_key"),
    "key that is not ASCII": (body(), {"authorization": "Bearer \xff\xfe"}, 401, "invalid_api_key"),
    "deadline that is a word": (body(), {"x-sluice-deadline-ms": "soon"}, 400, None),
    "deadline beyond all digits": (body(), {"x-sluice-deadline-ms": "9" * 5000}, 400, None),
}


@pytest.mark.parametrize("case", NOT_ADMITTED.values(), ids=NOT_ADMITTED.keys())
async def test_what_is_wrong_before_admission_takes_nothing(one: Edge, case: Any) -> None:
    wrong, headers, status, code = case
    response = await one.refused(wrong, path=CHAT, headers=headers)
    assert (response.status, response.error_code) == (status, code)


@pytest.mark.parametrize(
    "unread", [{"prices": PriceBook(())}, {"catalog": Catalog()}], ids=["prices", "models"]
)
async def test_gateway_that_has_not_read_its_catalog_says_to_come_again(
    one: Edge, unread: dict[str, Any]
) -> None:
    """It started while Redis was emptied or SQL away: that is no mistake of the caller's."""
    for name, nothing in unread.items():
        setattr(one.parts.catalog, name, nothing)
    response = await one.post(body())
    assert (response.status, response.error_code) == (503, "server_is_overloaded")
    assert int(response.headers["retry-after"]) >= 1


async def test_impossible_deadline_is_refused_at_once_with_retry_after(one: Edge) -> None:
    await one.publish_fleet()
    response = await one.post(body(), headers={"x-sluice-deadline-ms": "100"})
    assert (response.status, response.error_code) == (503, "server_is_overloaded")
    assert int(response.headers["retry-after"]) >= 1
    assert not await one.settled()


# --- refused by limits ---------------------------------------------------------------------------


async def test_budget_that_runs_out_mid_stream_stops_it_and_is_never_overspent(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    budget = 100 * OUTPUT_PRICE // 10**6
    small = {"output_slice_tokens": 16}

    def endless(_: fake.Request) -> fake.Script:
        return story(frames=200, tokens_a_frame=7)

    async with edge(
        redis_server,
        redis,
        tmp_path,
        gateway=small,
        limits={"budget_usd": usd(budget), "budget_window": "total"},
        behaviour=endless,
    ) as one:
        response = await one.post(body(max_tokens=2000))
        reasons = [c["choices"][0]["finish_reason"] for c in response.chunks if c["choices"]]
        assert [r for r in reasons if r] == ["length"]
        assert response.events[-1] == "[DONE]"
        (call,) = (await one.settled()).values()
        assert call.finish_reason == "length"
        assert 0 < call.amount_nanousd <= budget
        for _ in range(20):
            refused = await one.post(body(max_tokens=2000))
            if refused.status != 200:
                break
        assert sum(call.amount_nanousd for call in (await one.settled()).values()) <= budget
        assert (refused.status, refused.error_code) == (429, "insufficient_quota")
        assert refused.headers["x-should-retry"] == "false"
        assert "retry-after" not in refused.headers


async def test_concurrency_limit_refuses_the_second_call_and_frees_its_slot(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    limits = {"concurrency": 1}
    async with edge(redis_server, redis, tmp_path, limits=limits) as one:
        one.upstream.scripts.append(story(pause_s=0.05))
        both = await asyncio.gather(one.post(body()), one.post(body()))
        assert sorted(r.status or 0 for r in both) == [200, 429]
        assert (await one.post(body())).status == 200
        await one.settled()


# --- the client leaves, at every step ------------------------------------------------------------


async def test_client_that_leaves_at_any_turn_of_the_loop_leaves_nothing_open(one: Edge) -> None:
    """Every turn from the first on, one call each: admission, dispatch, relay and settling."""

    def after(turns: int) -> Callable[[Response], Awaitable[None]]:
        async def leave(_: Response) -> None:
            for _ in range(turns):
                await asyncio.sleep(0)

        return leave

    for turns in range(0, 160, 2):
        await one.post(body(), leave=after(turns))
    await one.settled()


async def test_client_that_leaves_while_waiting_leaves_the_waiting_room(one: Edge) -> None:
    await one.publish_fleet()

    async def once_waiting(_: Response) -> None:
        while not await one.redis.zcard("sluice:wait:tale-reserved"):  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    response = await one.post(body(), leave=once_waiting)
    assert response.status is None
    (call,) = (await one.settled()).values()
    assert (call.status, call.amount_nanousd) == (CallStatus.CANCELLED, 0)


# --- the upstream misbehaves ---------------------------------------------------------------------


async def test_fuzzed_upstream_never_crashes_the_relay(one: Edge) -> None:
    """Any damage to the bytes of a stream gives an answer or an error, and the books balance."""
    await one.publish_fleet(one.replica("r1"), one.replica("r2"), one.replica("r3"))
    rng = Random(3)
    whole = b"".join(a.data for a in story(frames=6).acts if isinstance(a, fake.Send))
    for _ in range(60):
        one.upstream.scripts.append(_damaged(whole, rng))
        response = await one.post(body(stream=rng.random() < 0.8, stream_options=None))
        assert response.is_complete
        if response.status == 200 and response.events:
            clean = response.events[-1] == "[DONE]"
            assert clean != any("error" in chunk for chunk in response.chunks)
        one.upstream.scripts.clear()
    await one.settled()


def _damaged(whole: bytes, rng: Random) -> fake.Script:
    data = bytearray(whole)
    for _ in range(rng.randrange(3)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    if rng.random() < 0.3:
        del data[rng.randrange(len(data)) :]
    acts = fake.cut_into(bytes(data), [rng.randrange(len(whole)) for _ in range(rng.randrange(9))])
    end = rng.choice([None, fake.Reset(), fake.Close()])
    return fake.Script([*acts, end] if end else acts)


async def test_stream_that_was_cut_ends_with_an_error_event_and_is_charged_what_came(
    one: Edge,
) -> None:
    one.upstream.scripts.append(fake.stream(fake.own_frame("a", 3), then=[fake.Close()]))
    response = await one.post(body())
    assert response.status == 200
    assert response.chunks[-1]["error"]["code"] == "upstream_disconnected"
    assert "[DONE]" not in response.events
    (call,) = (await one.settled()).values()
    assert (call.status, call.output) == (CallStatus.FAILED, 3)
    assert call.attempts[0].outcome == "cut"


async def test_whole_answer_is_started_over_on_another_worker(one: Edge) -> None:
    one.upstream.scripts.append(fake.stream(fake.own_frame("a", 3), then=[fake.Close()]))
    await one.publish_fleet(one.replica("r1"), one.replica("r2"))
    response = await one.post(body(stream=False, stream_options=None))
    assert response.status == 200
    assert response.json["choices"][0]["message"]["content"].startswith("word1")
    (call,) = (await one.settled()).values()
    assert [a.outcome for a in call.attempts] == ["cut", "answered"]


# --- Redis and the spool fail --------------------------------------------------------------------


async def test_redis_that_is_gone_is_a_503_and_what_runs_is_finished(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    async with edge(redis_server, redis, tmp_path) as one:
        await declare(one, "deny")
        one.upstream.scripts.append(story(frames=8, pause_s=0.05))
        running = asyncio.create_task(one.post(body()))
        async with asyncio.timeout(30):
            while not one.upstream.requests:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        redis_server.kill9()
        try:
            refused = await one.post(body())
            assert (refused.status, refused.error_code) == (503, "server_is_overloaded")
            finished = await running
            assert finished.events[-1] == "[DONE]"
        finally:
            redis_server.start()
        unsettled = "the one that has ended, and the one that may have been admitted"
        assert one.parts.accounts.unsettled_count == 2, unsettled


async def test_full_spool_is_a_503_that_takes_nothing(
    one: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise SpoolFull("no space left on device")

    monkeypatch.setattr(one.parts.accounts._spool, "opened", full)
    response = await one.post(body())
    assert (response.status, response.error_code) == (503, "server_is_overloaded")
    assert not one.upstream.requests
    assert not await one.settled()
