"""Calls with an `Idempotency-Key`: run once, charged once, told as often as they are asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from billing import tasks
from billing.tasks import end
from billing.types import CallStatus
from gateway.speeds.arrivals import ARRIVALS_KEY
from gateway.upstream import fake
from tests.billing.limits.harness import open_shard
from tests.gateway.edge import (
    API_KEY,
    CHAT,
    COMPLETIONS,
    SHARD,
    Edge,
    Response,
    body,
    edge,
    keys,
    story,
)
from tests.redis_server import RedisServer
from workers.controller.drains import LEAVING_KEY

KEY = {"idempotency-key": "order 17"}
WHOLE = body(stream=False, stream_options=None)
TEXT = {"model": "tale", "prompt": "Once", "max_tokens": 64}


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        yield running


def told_again(first: Response, second: Response) -> None:
    assert (second.status, second.body) == (first.status, first.body)
    assert second.headers == first.headers | {"idempotent-replayed": "true"}


async def running_claims(one: Edge) -> list[bytes]:
    """Keys of this organization whose run has not ended."""
    claims = await one.redis.keys(f"{keys.tag(SHARD)}:idem:key:*")
    return [key for key in claims if await one.redis.hget(key, "s") == b"running"]


# --- the same answer, one charge -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "wanted"),
    [(CHAT, body()), (CHAT, WHOLE), (COMPLETIONS, TEXT), (COMPLETIONS, TEXT | {"stream": True})],
    ids=["chat stream", "chat whole", "text whole", "text stream"],
)
async def test_g20_retry_under_the_same_key_is_told_the_same_answer_and_billed_once(
    one: Edge, path: str, wanted: dict[str, Any]
) -> None:
    first = await one.post(wanted, path=path, headers=KEY)
    second = await one.post(wanted, path=path, headers=KEY)
    told_again(first, second)
    (call,) = (await one.settled()).values()
    assert (call.status, call.rid) == (CallStatus.ANSWERED, first.headers["x-request-id"])
    assert len(one.upstream.requests) == 1
    assert await running_claims(one) == []


async def test_g20_second_delivery_attaches_to_the_first_while_it_runs(one: Edge) -> None:
    one.upstream.scripts.append(story(frames=8, pause_s=0.05))
    both = await asyncio.gather(*(one.post(body(), headers=KEY) for _ in range(5)))
    assert {response.body for response in both} == {both[0].body}
    assert sum("idempotent-replayed" in response.headers for response in both) == 4
    assert both[0].events[-1] == "[DONE]"
    assert len(await one.settled()) == 1


async def test_client_that_left_comes_back_and_has_the_whole_answer(one: Edge) -> None:
    one.upstream.scripts.append(story(frames=8, pause_s=0.05))

    async def after_first_word(response: Response) -> None:
        while b"word1" not in response.body:  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    dropped = asyncio.create_task(one.post(body(), headers=KEY, leave=after_first_word))
    async with asyncio.timeout(30):
        while not await running_claims(one):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    again = await one.post(body(), headers=KEY)
    assert again.events[-1] == "[DONE]"
    assert b"word8" in again.body
    heard = (await dropped).body
    assert len(heard) < len(again.body) and again.body.startswith(heard)
    (call,) = (await one.settled()).values()
    assert call.status is CallStatus.ANSWERED


async def test_run_without_its_client_ends_in_time(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    soon = {"idempotency": {"finish_within_s": 0.2}}
    async with edge(redis_server, redis, tmp_path, gateway=soon) as one:
        one.upstream.scripts.append(fake.stream(fake.own_frame("a", 2), then=[fake.Stall()]))

        async def after_first(response: Response) -> None:
            while not response.body:  # noqa: ASYNC110
                await asyncio.sleep(0.005)

        await one.post(body(), headers=KEY, leave=after_first)
        (call,) = (await one.settled()).values()
        assert (call.status, call.output) == (CallStatus.CANCELLED, 2)
        again = await one.post(body(), headers=KEY)
        assert again.chunks[-1]["error"]["code"] == "idempotent_run_lost"
        assert "[DONE]" not in again.events
        assert len(await one.settled()) == 1


async def test_client_that_leaves_at_any_turn_may_come_back_and_has_paid_once(one: Edge) -> None:
    """Before its claim, in the midst of it, while it is answered and after."""

    def after(turns: int) -> Callable[[Response], Awaitable[None]]:
        async def leave(_: Response) -> None:
            for _ in range(turns):
                await asyncio.sleep(0)

        return leave

    numbers = range(0, 120, 4)
    for turns in numbers:
        own = {"idempotency-key": f"turn {turns}"}
        await one.post(body(), headers=own, leave=after(turns))
        again = await one.post(body(), headers=own)
        assert again.events[-1] == "[DONE]"
    assert len(await one.settled()) == len(one.upstream.requests) == len(numbers)
    assert await running_claims(one) == []


@pytest.mark.parametrize("asks_again_s", [1.0, 0.0005], ids=["once", "again and again"])
async def test_server_that_stops_at_any_turn_leaves_no_run_without_an_end(
    one: Edge, monkeypatch: pytest.MonkeyPatch, asks_again_s: float
) -> None:
    """As a server does that has waited long enough for its calls: it cancels them."""
    monkeypatch.setattr(tasks, "ASK_AGAIN_S", asks_again_s)
    for turns in range(0, 120, 4):
        own = {"idempotency-key": f"stop {turns}"}
        stopped = asyncio.create_task(one.post(body(), headers=own))
        for _ in range(turns):
            await asyncio.sleep(0)
        await end(stopped)
        before = len(one.upstream.requests)
        again = await one.post(body(), headers=own)
        if again.chunks and "error" in again.chunks[-1]:
            assert again.chunks[-1]["error"]["code"] == "idempotent_run_lost"
            assert len(one.upstream.requests) == before, "never run again"
        elif again.status != 200:
            assert again.error_code == "idempotent_run_lost"
        else:
            assert again.events[-1] == "[DONE]"
    await one.settled()
    assert one.parts.once.replaying.followers == 0


RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"
NEWER: dict[str, dict[str, Any]] = {
    RESPONSES: {"model": "tale", "input": "Tell a story.", "max_output_tokens": 64},
    MESSAGES: {
        "model": "tale",
        "messages": [{"role": "user", "content": "Tell a story."}],
        "max_tokens": 64,
    },
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("path", NEWER)
async def test_g20_every_dialect_is_told_again_in_its_own_words(
    one: Edge, path: str, stream: bool
) -> None:
    named = KEY | {"x-api-key": API_KEY}
    wanted = NEWER[path] | {"stream": stream}
    first = await one.post(wanted, path=path, headers=named)
    assert first.status == 200
    told_again(first, await one.post(wanted, path=path, headers=named))
    other = await one.post(wanted | {"temperature": 0.5}, path=path, headers=named)
    assert other.status == 422
    assert (other.json.get("type") == "error") == (path == MESSAGES)
    assert len(await one.settled()) == 1


@pytest.mark.parametrize("path", NEWER)
async def test_run_that_was_lost_ends_in_the_words_of_its_dialect(one: Edge, path: str) -> None:
    named = KEY | {"x-api-key": API_KEY}
    wanted = NEWER[path] | {"stream": True}
    one.upstream.scripts.append(fake.stream(fake.own_frame("a", 2), then=[fake.Stall()]))
    heard = asyncio.Event()

    async def hear(response: Response) -> None:
        while b'"a"' not in response.body:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        heard.set()
        await asyncio.Event().wait()

    stopped = asyncio.create_task(one.post(wanted, path=path, headers=named, leave=hear))
    async with asyncio.timeout(30):
        await heard.wait()
    await end(stopped)
    again = await one.post(wanted, path=path, headers=named)
    assert b"event: error\n" in again.body
    assert b"idempotent_run_lost" in again.body or path == MESSAGES
    assert b"0.00002 USD" in again.body
    assert b"message_stop" not in again.body and b"response.completed" not in again.body
    await one.settled()


async def test_keys_of_two_routes_do_not_mix(one: Edge) -> None:
    await one.post(WHOLE, headers=KEY)
    other = await one.post(TEXT, path=COMPLETIONS, headers=KEY)
    assert (other.status, other.error_code) == (422, "idempotency_key_reused")


# --- refused -------------------------------------------------------------------------------------


async def test_key_reused_with_another_body_is_a_422_that_runs_nothing(one: Edge) -> None:
    first = await one.post(WHOLE, headers=KEY)
    other = await one.post(WHOLE | {"max_tokens": 63}, headers=KEY)
    assert (other.status, other.error_code) == (422, "idempotency_key_reused")
    assert first.headers["x-request-id"] in other.json["error"]["message"]
    assert other.headers["x-should-retry"] == "false"
    assert len(await one.settled()) == 1


@pytest.mark.parametrize("wrong", ["", "x" * 256, "\xe9"])
async def test_malformed_key_is_a_400_that_takes_nothing(one: Edge, wrong: str) -> None:
    response = await one.refused(WHOLE, path=CHAT, headers={"idempotency-key": wrong})
    assert (response.status, response.error_code) == (400, "invalid_idempotency_key")


@pytest.mark.parametrize("second", ["order 17", "order 18"])
async def test_call_with_two_keys_is_refused_and_claims_neither(one: Edge, second: str) -> None:
    """Which of them a proxy or a client meant cannot be known."""
    response = await one.post(WHOLE, headers=KEY, twice=[("idempotency-key", second)])
    assert (response.status, response.error_code) == (400, "invalid_idempotency_key")
    assert await running_claims(one) == []
    assert (await one.post(WHOLE, headers=KEY)).status == 200


async def test_call_that_cannot_be_claimed_is_not_run(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    async with edge(redis_server, redis, tmp_path) as one:
        redis_server.kill9()
        try:
            refused = await one.post(WHOLE, headers=KEY)
            assert (refused.status, refused.error_code) == (503, "server_is_overloaded")
            assert "Idempotency" in refused.json["error"]["message"]
        finally:
            redis_server.start()
        assert not one.upstream.requests
        await open_shard(one.holds, shard=SHARD)
        async with asyncio.timeout(30):
            while (await one.post(WHOLE, headers=KEY)).status != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        assert len(one.upstream.requests) == 1


# --- failures ------------------------------------------------------------------------------------

FREE_FAILURES: dict[str, tuple[fake.Script, int]] = {
    "the worker's no": (fake.refusal(400, {"message": "no", "code": "bad"}), 400),
    "lost before a frame": (fake.stream(), 503),
}


@pytest.mark.parametrize("case", FREE_FAILURES.values(), ids=FREE_FAILURES.keys())
async def test_failure_that_cost_nothing_releases_the_key(
    one: Edge, case: tuple[fake.Script, int]
) -> None:
    script, status = case
    one.upstream.behaviour = lambda _: script
    await one.publish_fleet(one.replica(), others="2 failed starts")
    first = await one.post(WHOLE, headers=KEY)
    assert first.status == status
    one.upstream.behaviour = lambda _: story()
    again = await one.post(WHOLE, headers=KEY)
    assert again.status == 200
    assert "idempotent-replayed" not in again.headers
    calls = await one.settled()
    assert sum(call.amount_nanousd > 0 for call in calls.values()) == 1


async def test_refusal_by_a_limit_releases_the_key(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    async with edge(redis_server, redis, tmp_path, limits={"concurrency": 1}) as one:
        one.upstream.scripts.append(fake.Script([fake.Stall()]))
        refused: list[int | None] = []

        async def refuse(_: Response) -> None:
            while not one.upstream.requests:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            refused.append((await one.post(WHOLE, headers=KEY)).status)

        await one.post(body(), leave=refuse)
        assert refused == [429]
        await one.settled()
        assert (await one.post(WHOLE, headers=KEY)).status == 200


async def test_failure_that_was_charged_is_kept_and_told_again(one: Edge) -> None:
    one.upstream.scripts.append(fake.stream(fake.own_frame("a", 3), then=[fake.Close()]))
    first = await one.post(body(), headers=KEY)
    assert first.chunks[-1]["error"]["code"] == "upstream_disconnected"
    told_again(first, await one.post(body(), headers=KEY))
    (call,) = (await one.settled()).values()
    assert (call.status, call.output) == (CallStatus.FAILED, 3)


async def test_answer_beyond_the_bound_is_never_run_again(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    small = {"idempotency": {"answer_bytes_max": 100}}
    async with edge(redis_server, redis, tmp_path, gateway=small) as one:
        first = await one.post(body(), headers=KEY)
        assert first.events[-1] == "[DONE]"
        again = await one.post(body(), headers=KEY)
        assert (again.status, again.error_code) == (410, "idempotent_answer_too_large")
        assert first.headers["x-request-id"] in again.json["error"]["message"]
        assert len(one.upstream.requests) == 1
        assert len(await one.settled()) == 1


# --- without a key -------------------------------------------------------------------------------


async def test_warm_call_without_a_key_is_two_round_trips_to_redis(one: Edge) -> None:
    """Admit and settle. What keepers ask is known by its words, and so are the keys of what
    gateways tell each other and the ledger beside the calls, for which no call waits."""
    beside_calls = (
        "sluice:work",
        "sluice:prefixes",
        "sluice:decisions",
        "sluice:speeds",
        ARRIVALS_KEY,
        LEAVING_KEY,
    )
    await one.post(WHOLE)
    async with one.redis.monitor() as monitor:
        await one.post(WHOLE)
        await one.redis.set("sluice:end", 1)
        seen = []
        async with asyncio.timeout(30):
            async for command in monitor.listen():
                if "sluice:end" in command["command"]:
                    break
                words = command["command"]
                if command["client_type"] != "lua" and not any(
                    key in words for key in beside_calls
                ):
                    seen.append(words.split()[0].upper())
    assert [name for name in seen if name.startswith("EVAL")] == ["EVALSHA", "EVALSHA"]
    beside = {"GET", "SET", "HELLO", "CLIENT"}
    assert set(seen) <= {"EVALSHA"} | beside, "the fleet and the catalog are polled meanwhile"
