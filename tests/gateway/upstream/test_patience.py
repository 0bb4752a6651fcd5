"""How long a server may take: for its first token, and between two events of its answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from billing.types import CallStatus
from gateway.upstream import fake
from tests.gateway.edge import Edge, body, edge
from tests.redis_server import RedisServer

WHOLE = body(stream=False, stream_options=None)
BOTH_FORMS = pytest.mark.parametrize("wanted", [WHOLE, body()], ids=["whole", "stream"])
FIRST_TOKEN_S = 1.5
"""Long for a server that is there, on a machine that has other things to do."""
ROLE = fake.event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})

BEFORE_THE_FIRST_TOKEN: dict[str, fake.Script] = {
    "not even a status line": fake.Script([fake.Stall()], status=None),
    "a status and silence": fake.Script([fake.Stall()]),
    "a role and silence": fake.stream(ROLE, then=[fake.Stall()]),
    "comments for ever": fake.Script(
        [act for _ in range(200) for act in (fake.Send(b": ping\n\n"), fake.Pause(0.05))]
    ),
    "a reset": fake.Script([fake.Reset()], status=None),
    "a role and a reset": fake.stream(ROLE, then=[fake.Reset()]),
    "a server error": fake.refusal(500, b"oops"),
    "nonsense": fake.stream(b"data: {nonsense\n\n"),
}


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    quick = {"first_token_timeout_s": FIRST_TOKEN_S, "idle_timeout_s": 2 * FIRST_TOKEN_S}
    async with edge(redis_server, redis, tmp_path, gateway=quick) as running:
        await running.publish_fleet(running.replica("r1"), running.replica("r2"))
        yield running


@BOTH_FORMS
@pytest.mark.parametrize(
    "script", BEFORE_THE_FIRST_TOKEN.values(), ids=BEFORE_THE_FIRST_TOKEN.keys()
)
async def test_g36_what_fails_before_its_first_token_is_passed_over_in_both_forms(
    one: Edge, script: fake.Script, wanted: dict[str, object]
) -> None:
    one.upstream.scripts.append(script)
    response = await one.post(wanted)
    assert response.status == 200
    assert b"word4" in response.body
    (call,) = (await one.settled()).values()
    assert [attempt.outcome for attempt in call.attempts] == ["cut", "answered"]
    assert (call.status, call.output) == (CallStatus.ANSWERED, 8), "paid once"


async def test_first_token_that_comes_in_time_may_be_followed_by_a_longer_silence(
    one: Edge,
) -> None:
    """Its own bound is for the first token only."""
    first, last = fake.own_frame("a", 1), fake.own_frame("b", 2, finish="stop")
    pause = fake.Pause(1.2 * FIRST_TOKEN_S)
    acts = [fake.Send(first), pause, fake.Send(last), fake.Send(fake.DONE)]
    one.upstream.scripts.append(fake.Script(acts))
    response = await one.post(body())
    assert response.events[-1] == "[DONE]"
    (call,) = (await one.settled()).values()
    assert [attempt.outcome for attempt in call.attempts] == ["answered"]


async def test_g35_stream_that_stalls_in_the_middle_ends_with_an_error_event(one: Edge) -> None:
    one.upstream.scripts.append(fake.stream(fake.own_frame("a", 3), then=[fake.Stall()]))
    response = await one.post(body())
    assert response.chunks[-1]["error"]["code"] == "upstream_disconnected"
    assert "[DONE]" not in response.events
    (call,) = (await one.settled()).values()
    assert (call.status, call.output, call.finish_reason) == (CallStatus.FAILED, 3, None)


async def test_deadline_that_ends_first_is_still_a_504(one: Edge) -> None:
    one.upstream.behaviour = lambda _: fake.Script([fake.Stall()])
    response = await one.post(WHOLE, headers={"x-sluice-deadline-ms": "1000"})
    assert (response.status, response.error_code) == (504, "deadline_exceeded")
    await one.settled()


async def test_chatter_without_a_token_is_bounded(one: Edge) -> None:
    """A server that says its role for ever is taken at its word after so many times."""
    one.upstream.scripts.append(fake.stream(*[ROLE] * 200, then=[fake.Close()]))
    response = await one.post(body())
    assert response.chunks[-1]["error"]["code"] == "upstream_disconnected"
    (call,) = (await one.settled()).values()
    assert call.output == 0


# --- what a failure costs ------------------------------------------------------------------------


async def test_g7_whole_answer_that_failed_is_free_and_its_attempts_are_on_record(
    one: Edge,
) -> None:
    one.upstream.behaviour = lambda _: fake.stream(fake.own_frame("a", 3), then=[fake.Close()])
    response = await one.post(WHOLE)
    assert (response.status, response.error_code) == (502, "upstream_disconnected")
    (call,) = (await one.settled()).values()
    assert (call.status, call.amount_nanousd) == (CallStatus.FAILED, 0)
    assert [(a.outcome, a.output) for a in call.attempts] == [("cut", 3)] * 3


async def test_g7_stream_that_failed_without_a_token_is_free(one: Edge) -> None:
    empty = fake.own_frame("", 0)
    one.upstream.behaviour = lambda _: fake.stream(*[empty] * 100, then=[fake.Close()])
    response = await one.post(body())
    assert response.chunks[-1]["error"]["code"] == "upstream_disconnected"
    (call,) = (await one.settled()).values()
    assert (call.status, call.amount_nanousd) == (CallStatus.FAILED, 0)


@BOTH_FORMS
async def test_g7_answer_without_a_token_costs_its_prompt(
    one: Edge, wanted: dict[str, object]
) -> None:
    one.upstream.scripts.append(fake.stream(fake.own_frame("", 0, finish="stop"), fake.DONE))
    assert (await one.post(wanted)).status == 200
    (call,) = (await one.settled()).values()
    assert (call.status, call.output, call.amount_nanousd) == (CallStatus.ANSWERED, 0, 10 * 1000)
