"""A node leaves: its replicas take no new call, and what they still answer finishes there in time
or goes on elsewhere before the end. Whoever cannot go on elsewhere loses nothing by the try."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from time import time
from typing import Any

import pytest
from redis.asyncio import Redis

from billing.limits.holds import Holds
from billing.types import SettledCall
from gateway.moves.move import MOVES_MAX
from gateway.upstream import fake
from tests.gateway.edge import CHAT, SETTLED_WITHIN_S, Edge, Response, edge
from tests.gateway.moves.speaker import BUSY_US, PROMPT, Speaker, texts
from tests.gateway.moves.test_moves import (
    BODIES,
    STORY,
    listening,
    outcomes,
    text_of,
    with_notices,
)
from tests.redis_server import RedisServer
from workers.controller.drains import ask_to_drain, mark_leaving

STREAM = BODIES[CHAT] | {"stream": True}
SOON_S = 0.5
"""A notice that is nearly over."""


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path) as running:
        running.holds = Holds(redis, timeout_s=30.0)
        yield running


async def publish(one: Edge, *names: str, leaving: str = "", ends_in_s: float = SOON_S) -> None:
    """A replica on a node of its own each, one of which leaves."""
    replicas = [one.replica(name) | {"node": f"node-{name}"} for name in names]
    for replica in replicas:
        if replica["id"] == leaving:
            ends_ms = round((time() + ends_in_s) * 1000)
            replica |= {"state": "DRAINING", "ends_ms": ends_ms}
    await one.publish_fleet(*replicas)


async def record(one: Edge) -> SettledCall:
    [call] = (await one.settled()).values()
    return call


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(SETTLED_WITHIN_S):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def call_with_notices(
    one: Edge, speaker: Speaker, **fields: Any
) -> tuple[Response, SettledCall]:
    """Each pause of the speaker is a notice."""
    one.upstream.behaviour = speaker
    response = await with_notices(one, speaker, one.post(STREAM | fields))
    return response, await record(one)


async def test_sf_marked_node_takes_no_new_call_before_the_controller_says_so(one: Edge) -> None:
    await publish(one, "r1", "r2")
    await ask_to_drain(one.redis, "node-r1", 600.0)
    await one.parts.fleet.refresh()
    one.upstream.behaviour = lambda request: Speaker(STORY)(request)
    for _ in range(8):
        await one.post(STREAM)
    calls = (await one.settled()).values()
    assert {attempt.replica for call in calls for attempt in call.attempts} == {"r2"}


async def test_first_mark_of_a_node_stands_and_old_ones_go(one: Edge) -> None:
    now_ms = 10_000_000
    await mark_leaving(one.redis, {"a": now_ms, "b": now_ms}, now_ms)
    await mark_leaving(one.redis, {"a": now_ms + 1}, now_ms)
    assert await one.redis.hgetall("sluice:nodes:leaving") == {b"a": b"10000000", b"b": b"10000000"}
    await mark_leaving(one.redis, {"c": now_ms * 2}, now_ms * 2)
    assert await one.redis.hgetall("sluice:nodes:leaving") == {b"c": b"20000000"}


async def test_stream_moves_before_its_replica_ends(one: Edge) -> None:
    """That goes on speaking, and says nothing that is counted twice."""
    await publish(one, "r1")
    one.upstream.behaviour = speaker = Speaker(STORY, pauses=deque([2]))
    asking = asyncio.create_task(one.post(STREAM))
    await until(lambda: bool(speaker.paused))
    await listening(one, speaker.paused[0])
    await publish(one, "r1", "r2", leaving="r1")
    response = await asking
    speaker.paused[0].over.set()
    assert text_of(response) == texts(STORY)[0]
    call = await record(one)
    moved, answered = call.attempts
    assert [(a.replica, a.outcome, a.output) for a in call.attempts] == [
        ("r1", "moved", 4),
        ("r2", "answered", 8),
    ]
    assert moved.busy_us == BUSY_US * (PROMPT + 4)
    assert answered.busy_us == BUSY_US * (PROMPT + 12), "the replay is our cost"
    assert (call.input, call.cached_input, call.output) == (PROMPT - 4, 4, 12)
    assert speaker.resumes[-1] is not None


async def test_whole_answer_moves_before_its_replica_ends(one: Edge) -> None:
    speaker = Speaker(STORY, pauses=deque([2]))
    await publish(one, "r1", "r2")
    response, call = await call_with_notices(one, speaker, stream=False)
    assert response.json["choices"][0]["message"]["content"] == texts(STORY)[0]
    assert outcomes(call) == ["moved", "answered"]


async def test_answer_goes_on_where_it_is_while_nobody_else_takes_it(one: Edge) -> None:
    """As vLLM refuses where it could not be exact."""
    refusal = fake.refusal(400, {"message": "no", "code": "unsupported_parameter", "param": "x"})
    await publish(one, "r1", "r2")
    speaker = Speaker(STORY, pauses=deque([2]), refusal=refusal)
    response, call = await call_with_notices(one, speaker)
    assert text_of(response) == texts(STORY)[0] and response.events[-1] == "[DONE]"
    assert outcomes(call) == ["rejected", "answered"]
    assert call.output == 12


async def test_answer_stays_where_no_other_replica_is(one: Edge) -> None:
    await publish(one, "r1")
    response, call = await call_with_notices(one, Speaker(STORY, pauses=deque([2])))
    assert text_of(response) == texts(STORY)[0]
    assert outcomes(call) == ["answered"]


async def test_at_the_last_moment_an_answer_waits_for_whoever_comes(one: Edge) -> None:
    await publish(one, "r1")
    one.upstream.behaviour = speaker = Speaker(STORY, pauses=deque([2]))
    asking = asyncio.create_task(one.post(STREAM))
    await until(lambda: bool(speaker.paused))
    await listening(one, speaker.paused[0])
    await publish(one, "r1", leaving="r1")
    await one.waits()
    await publish(one, "r2")
    assert text_of(await asking) == texts(STORY)[0]
    speaker.paused[0].over.set()
    assert [(a.replica, a.outcome) for a in (await record(one)).attempts] == [
        ("r1", "moved"),
        ("r2", "answered"),
    ]


async def test_answer_stays_until_its_node_ends_where_nobody_else_is(one: Edge) -> None:
    """Serve ends no replica before another one runs, however short its grace is."""
    await publish(one, "r1")
    one.upstream.behaviour = speaker = Speaker(STORY, pauses=deque([2]))
    asking = asyncio.create_task(one.post(STREAM))
    await until(lambda: bool(speaker.paused))
    attempt = await listening(one, speaker.paused[0])
    now_ms = round(time() * 1000)
    await mark_leaving(one.redis, {"node-r1": now_ms + 600_000}, now_ms)
    await publish(one, "r1", leaving="r1", ends_in_s=-1.0)
    one.parts.mover.look()
    assert attempt.standing(time(), has_place=True) is not None, "it was not told to leave"
    await publish(one, "r1", "r2", leaving="r1", ends_in_s=-1.0)
    assert text_of(await asking) == texts(STORY)[0]
    speaker.paused[0].over.set()
    assert outcomes(await record(one)) == ["moved", "answered"]


async def test_answer_that_moved_often_enough_stays(one: Edge) -> None:
    await publish(one, "r1", "r2", "r3", "r4", "r5")
    speaker = Speaker(STORY, pauses=deque([1] * (MOVES_MAX + 1)))
    response, call = await call_with_notices(one, speaker)
    assert text_of(response) == texts(STORY)[0]
    assert outcomes(call) == ["moved"] * MOVES_MAX + ["answered"]


async def test_call_without_a_token_is_tried_elsewhere(one: Edge) -> None:
    await publish(one, "r1", "r2")
    response, call = await call_with_notices(one, Speaker(STORY, pauses=deque([0])))
    assert text_of(response) == texts(STORY)[0]
    assert outcomes(call) == ["cut", "answered"]
    assert call.attempts[0].replica != call.attempts[1].replica


async def test_answer_without_token_ids_stays(one: Edge) -> None:
    """To move it would be to lose it."""
    await publish(one, "r1", "r2")
    going_on = asyncio.Event()
    frames = [fake.own_frame("a", 1, prompt=PROMPT), fake.own_frame("b", 2, finish="stop")]
    rest = [fake.Wait(going_on), fake.Send(frames[1]), fake.Send(fake.DONE)]
    one.upstream.scripts.append(fake.stream(frames[0], then=rest))
    asking = asyncio.create_task(one.post(STREAM))
    await until(lambda: any(a.open_call.has_spoken for a in one.parts.mover.attempts))
    [attempt] = one.parts.mover.attempts
    attempt.interrupt(is_last=True)
    await until(lambda: attempt.stays)
    going_on.set()
    assert text_of(await asking) == "ab"
    assert outcomes(await record(one)) == ["answered"]


async def test_sf_all_streams_of_a_node_move_and_lose_nothing(one: Edge) -> None:
    await publish(one, "r1")
    speakers: dict[str, Speaker] = {}

    def speak(request: fake.Request) -> fake.Script:
        rid = request.body["sluice"]["request_id"]
        speakers.setdefault(rid, Speaker(STORY, pauses=deque([2])))
        return speakers[rid](request)

    one.upstream.behaviour = speak
    asking = [asyncio.create_task(one.post(STREAM)) for _ in range(6)]
    begun = one.parts.mover.attempts
    await until(lambda: sum(attempt.open_call.has_spoken for attempt in begun) == len(asking))
    await publish(one, "r1", "r2", leaving="r1")
    assert [text_of(response) for response in await asyncio.gather(*asking)] == [
        texts(STORY)[0]
    ] * len(asking)
    for speaker in speakers.values():
        speaker.paused[0].over.set()
    calls = (await one.settled()).values()
    assert [outcomes(call) for call in calls] == [["moved", "answered"]] * len(asking)
