"""What users of other gateways suffer from, in the metering of streams and in falling back: each
named scenario as it has to come out here. Others stand beside what they are about."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from billing.types import CallStatus
from gateway.catalog.bootstrap import KEY_ID
from gateway.upstream import fake
from tests.gateway.api.asgi import ask
from tests.gateway.edge import API_KEY, CHAT, COMPLETIONS, Edge, Response, body, edge, story
from tests.redis_server import RedisServer

PROMPT, TOKEN = 10 * 1000, 5000
"""Nano-USD of the prompt the fake reports, and of a token of output."""
WHOLE = body(stream=False, stream_options=None)
SAID = [{"role": "user", "content": "Tell a story."}]
STREAMS: dict[str, dict[str, Any]] = {
    CHAT: body(),
    COMPLETIONS: {"model": "tale", "prompt": "Once", "stream": True},
    "/v1/responses": {"model": "tale", "input": "Once", "stream": True},
    "/v1/messages": {"model": "tale", "messages": SAID, "max_tokens": 64, "stream": True},
}
CLEAN_ENDS = (b"[DONE]", b"response.completed", b"response.incomplete", b"message_stop")


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    quick = {"first_token_timeout_s": 1.5, "idle_timeout_s": 1.5}
    async with edge(redis_server, redis, tmp_path, gateway=quick) as running:
        await running.publish_fleet(running.replica("r1"), running.replica("r2"))
        yield running


async def only(one: Edge) -> Any:
    (call,) = (await one.settled()).values()
    return call


def once_produced(one: Edge, tokens: int) -> Callable[[Response], Awaitable[None]]:
    """Leave when so much of the only open call has been counted."""

    async def leave(_: Response) -> None:
        while True:
            meters = [call.meter for call in one.parts.accounts.open.values() if call.meter]
            if meters and meters[0].usage.output >= tokens:
                return
            await asyncio.sleep(0.005)

    return leave


# --- G1 to G11: metering and money ---------------------------------------------------------------

EARLY_ENDS = {
    "the upstream hangs up": fake.stream(fake.own_frame("a", 2), then=[fake.Close()]),
    "it is reset": fake.stream(fake.own_frame("a", 2), then=[fake.Reset()]),
    "it stalls": fake.stream(fake.own_frame("a", 2), then=[fake.Stall()]),
    "it talks nonsense": fake.stream(fake.own_frame("a", 2), b"data: {\n\n"),
    "it says done too early": fake.stream(fake.own_frame("a", 2), fake.DONE),
}


@pytest.mark.parametrize("script", EARLY_ENDS.values(), ids=EARLY_ENDS.keys())
async def test_g1_stream_that_ends_early_has_its_terminal_record(
    one: Edge, script: fake.Script
) -> None:
    one.upstream.scripts.append(script)
    await one.post(body())
    call = await only(one)
    assert (call.status, call.output, call.amount_nanousd) == (
        CallStatus.FAILED,
        2,
        PROMPT + 2 * TOKEN,
    )


@pytest.mark.parametrize("wanted", [body(), WHOLE], ids=["g2 stream", "g3 whole"])
async def test_g2_g3_client_that_leaves_pays_for_what_was_produced_and_stops_it(
    one: Edge, wanted: dict[str, Any]
) -> None:
    one.upstream.scripts.append(fake.stream(fake.own_frame("a", 3), then=[fake.Stall()]))
    await one.post(wanted, leave=once_produced(one, 3))
    await one.upstream.all_hung_up(within_s=30)
    call = await only(one)
    assert (call.status, call.error_code) == (CallStatus.CANCELLED, "client_closed_request")
    assert (call.output, call.amount_nanousd) == (3, PROMPT + 3 * TOKEN)


@pytest.mark.parametrize("comes_to_an_end", [True, False])
async def test_g3_answer_bought_in_one_piece_is_paid_by_whoever_left_before_it_came(
    redis_server: RedisServer, redis: Redis, tmp_path: Path, comes_to_an_end: bool
) -> None:
    """It costs us all of it, so leaving just before its end is no way to have it for nothing."""
    said = {"index": 0, "message": {"content": "Once upon."}, "finish_reason": "stop"}
    used = {"prompt_tokens": 10, "completion_tokens": 7}
    data = json.dumps({"choices": [said], "usage": used}).encode()
    json_type = (("content-type", "application/json"),)
    has_left = asyncio.Event()
    slowly = fake.Script([fake.Wait(has_left), fake.Send(data)], headers=json_type)
    never = fake.Script([fake.Stall()], headers=json_type)
    quick = {"slow_reader_timeout_s": 4.0, "external_idle_timeout_s": 5.0}

    async def once_asked(_: Response) -> None:
        while not outside.requests:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        asyncio.get_running_loop().call_later(0.1, has_left.set)

    async with (
        fake.FakeUpstream(lambda _: slowly if comes_to_an_end else never) as outside,
        edge(redis_server, redis, tmp_path, gateway=quick, outer=outside.address) as one,
    ):
        await one.post(WHOLE, leave=once_asked)
        call = await only(one)
        assert not outside.requests[0].body.get("stream")
    assert (call.status, call.error_code) == (CallStatus.CANCELLED, "client_closed_request")
    owed = PROMPT + 7 * TOKEN if comes_to_an_end else 0
    assert (call.output, call.amount_nanousd) == (7 if comes_to_an_end else 0, owed)


async def test_g4_usage_of_zero_is_not_usage_that_is_missing(one: Edge) -> None:
    words = [fake.plain_frame("a"), fake.plain_frame("b", "stop")]
    one.upstream.scripts.append(fake.stream(*words, fake.plain_usage(0, 0), fake.DONE))
    zero = await one.post(body())
    one.upstream.scripts.append(fake.stream(*words, fake.DONE))
    missing = await one.post(body())
    calls = await one.settled()
    assert calls[zero.headers["x-request-id"]].amount_nanousd == 0
    assert calls[missing.headers["x-request-id"]].output == 2


async def test_g5_usage_that_never_came_is_settled_from_what_did(one: Edge) -> None:
    said = [fake.plain_frame("a"), fake.plain_frame("b")]
    one.upstream.scripts.append(fake.stream(*said, then=[fake.Stall()]))
    await one.post(body(), leave=once_produced(one, 2))
    call = await only(one)
    assert (call.status, call.output) == (CallStatus.CANCELLED, 2)
    assert call.amount_nanousd >= 2 * TOKEN


async def test_g6_words_of_an_error_are_not_output(one: Edge) -> None:
    error = fake.event({"error": {"message": "many words about what went wrong " * 9}})
    one.upstream.scripts.append(fake.stream(fake.own_frame("a", 1), error))
    response = await one.post(body())
    assert b"many words" not in response.body
    assert (await only(one)).output == 1


async def test_g9_retries_are_attempts_of_one_call_that_is_paid_once(one: Edge) -> None:
    lost = fake.stream(fake.own_frame("a", 3), then=[fake.Close()])
    busy = fake.refusal(503, {"message": "busy"})
    one.upstream.scripts.extend([busy, lost, story()])
    assert (await one.post(WHOLE)).status == 200
    call = await only(one)
    found = [(attempt.outcome, attempt.output) for attempt in call.attempts]
    assert found == [("saturated", 0), ("cut", 3), ("answered", 8)]
    assert call.amount_nanousd == PROMPT + 8 * TOKEN


async def test_g10_ledger_has_the_model_asked_for_and_the_one_that_served(one: Edge) -> None:
    one.upstream.scripts.append(fake.Script([fake.Reset()], status=None))
    await one.post(WHOLE | {"model": "auto"})
    call = await only(one)
    assert (call.model_requested, call.model, call.pool) == ("auto", "tale", "tale-reserved")
    decision = await one.explained(call.rid)
    assert [candidate.model for candidate in decision.candidates] == ["tale", "tale"]


async def test_g11_failure_is_a_failure_in_the_answer_and_in_the_ledger(one: Edge) -> None:
    broken = fake.stream(fake.own_frame("a", 1), fake.event({"error": {"message": "died"}}))
    one.upstream.behaviour = lambda _: broken
    stream, whole = await one.post(body()), await one.post(WHOLE)
    assert stream.chunks[-1]["error"]["code"] == "upstream_disconnected"
    assert (whole.status, whole.error_code) == (502, "upstream_disconnected")
    calls = (await one.settled()).values()
    assert {(call.status, call.error_code) for call in calls} == {
        (CallStatus.FAILED, "upstream_disconnected")
    }


# --- G35 to G41: falling back --------------------------------------------------------------------


@pytest.mark.parametrize("path", STREAMS)
@pytest.mark.parametrize("script", EARLY_ENDS.values(), ids=EARLY_ENDS.keys())
async def test_g35_stream_that_was_cut_never_ends_cleanly_on_any_route(
    one: Edge, path: str, script: fake.Script
) -> None:
    one.upstream.scripts.append(script)
    response = await one.post(STREAMS[path], path=path, headers={"x-api-key": API_KEY})
    assert response.status == 200
    assert b"error" in response.body
    assert not any(end in response.body for end in CLEAN_ENDS)
    assert (await only(one)).status is CallStatus.FAILED


async def test_g37_refusal_of_a_second_try_does_not_hide_the_first_failure(one: Edge) -> None:
    lost = fake.stream(fake.own_frame("a", 3), then=[fake.Close()])
    no = fake.refusal(400, {"message": "no such prefix", "code": "bad_prefix"})
    one.upstream.scripts.extend([lost, no])
    response = await one.post(WHOLE)
    assert (response.status, response.error_code) == (502, "upstream_disconnected")
    call = await only(one)
    assert [attempt.outcome for attempt in call.attempts] == ["cut", "rejected"]
    assert (call.status, call.amount_nanousd) == (CallStatus.FAILED, 0)


CALLERS_FAULT = {
    "bad request": (400, {"message": "no", "code": "bad"}),
    "context": (400, {"message": "too long", "code": "context_length_exceeded"}),
    "too large": (413, {"message": "too large"}),
    "semantic": (422, {"message": "odd"}),
}


@pytest.mark.parametrize("wanted", [body(), WHOLE], ids=["stream", "whole"])
@pytest.mark.parametrize("case", CALLERS_FAULT.values(), ids=CALLERS_FAULT.keys())
async def test_g38_what_is_the_callers_fault_is_not_tried_elsewhere(
    one: Edge, case: tuple[int, dict[str, Any]], wanted: dict[str, Any]
) -> None:
    one.upstream.scripts.append(fake.refusal(*case))
    response = await one.post(wanted)
    assert (response.status, response.json["error"]["message"]) == (400, case[1]["message"])
    assert [a.outcome for a in (await only(one)).attempts] == ["rejected"]


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_g38_what_an_upstream_says_of_our_own_key_is_not_the_callers_fault(
    one: Edge, status: int
) -> None:
    """Its key and its name of the model are ours: the next candidate may have better ones."""
    one.upstream.scripts.append(fake.refusal(status, {"message": "no"}))
    assert (await one.post(WHOLE)).status == 200
    assert [a.outcome for a in (await only(one)).attempts] == ["cut", "answered"]


async def test_g41_retry_after_of_an_upstream_reaches_the_caller(one: Edge) -> None:
    for status in (429, 503):
        busy = fake.refusal(status, {"message": "busy"}, (("retry-after", "33"),))
        one.upstream.behaviour = lambda _, busy=busy: busy  # type: ignore[misc]
        await one.publish_fleet(one.replica("r1"), one.replica("r2"), others="2 failed starts")
        response = await one.post(WHOLE)
        assert (response.status, response.headers["retry-after"]) == (503, "33")
    await one.settled()


async def test_g41_retry_after_of_a_cold_pool_is_when_it_will_be_ready(one: Edge) -> None:
    await one.publish_fleet()
    soon = await one.post(WHOLE, headers={"x-sluice-deadline-ms": "50"})
    assert soon.status == 503
    assert 1 <= int(soon.headers["retry-after-ms"]) <= 1000, "a start takes 0.2 s here"
    assert not await one.settled()


async def test_g41_retry_after_of_a_full_scope_follows_how_long_its_calls_last(one: Edge) -> None:
    """One slot, and a call of a second and a half: whoever finds it taken is not sent back after
    one second, as it once was whatever calls took."""
    raw = b'{"concurrency": 1}'
    await ask(one.app, "PUT", f"/admin/v1/limits/key:{KEY_ID}", raw, "admin")
    one.upstream.scripts.extend([story(frames=5, pause_s=0.3), fake.Script([fake.Stall()])])
    assert (await one.post(body())).status == 200
    answers: list[Response] = []

    async def ask_beside(_: Response) -> None:
        while len(one.upstream.requests) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        answers.append(await one.post(body()))

    await one.post(body(), leave=ask_beside)
    (refused,) = answers
    assert (refused.status, refused.error_code) == (429, "rate_limit_exceeded")
    assert int(refused.headers["retry-after-ms"]) >= 1500
    assert int(refused.headers["retry-after"]) >= 2
    await one.settled()
