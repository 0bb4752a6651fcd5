"""A call whose worker is lost or ends in the midst of its answer goes on at another one: one
answer, one usage and one charge, as if nothing had happened."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from billing.limits.holds import Holds
from billing.types import CallStatus, SettledCall
from gateway.moves.move import MOVES_MAX
from gateway.upstream import fake
from gateway.upstream.live import LiveAttempt
from tests.gateway.edge import (
    CHAT,
    COMPLETIONS,
    POOLS,
    SETTLED_WITHIN_S,
    Edge,
    Response,
    edge,
)
from tests.gateway.moves.speaker import BUSY_US, PROMPT, Pause, Said, Speaker, texts
from tests.redis_server import RedisServer

REPLICAS = ("r1", "r2", "r3", "r4", "r5")
SAID = [{"role": "user", "content": "Tell a story."}]
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"model": "tale", "messages": SAID, "max_tokens": 64},
    COMPLETIONS: {"model": "tale", "prompt": "Once", "max_tokens": 64},
    "/v1/responses": {"model": "tale", "input": "Tell.", "max_output_tokens": 64},
    "/v1/messages": {"model": "tale", "messages": SAID, "max_tokens": 64},
}
STORY = [Said(0, f"word{number} ", 2) for number in range(6)]


@asynccontextmanager
async def replicated(server: RedisServer, redis: Redis, folder: Path) -> AsyncIterator[Edge]:
    async with edge(server, redis, folder) as running:
        await running.publish_fleet(*map(running.replica, REPLICAS))
        running.holds = Holds(redis, timeout_s=30.0)
        yield running


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with replicated(redis_server, redis, tmp_path) as running:
        yield running


@dataclass(slots=True)
class Bench:
    runner: asyncio.Runner
    edge: Edge
    settled: frozenset[str] = frozenset()


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with (
        tempfile.TemporaryDirectory(prefix="sluice-") as folder,
        RedisServer(Path(folder)) as server,
        asyncio.Runner() as runner,
    ):
        gateway = served(server, Path(folder))
        yield Bench(runner, runner.run(gateway.__aenter__()))
        runner.run(gateway.__aexit__(None, None, None))


@asynccontextmanager
async def served(server: RedisServer, folder: Path) -> AsyncIterator[Edge]:
    async with server.client() as redis, replicated(server, redis, folder) as running:
        yield running


async def answer(
    bench: Bench, speaker: Speaker, path: str, wanted: dict[str, Any]
) -> tuple[Response, SettledCall]:
    """The answer to one call and its only record."""
    bench.edge.upstream.behaviour = speaker
    response = await with_notices(bench.edge, speaker, bench.edge.post(wanted, path=path))
    calls = await bench.edge.settled()
    [rid] = calls.keys() - bench.settled
    bench.settled |= {rid}
    return response, calls[rid]


async def with_notices(
    one: Edge, speaker: Speaker, calling: Coroutine[Any, Any, Response]
) -> Response:
    """A call whose attempts hear, where they pause, that their replicas end; and go on."""
    asking = asyncio.ensure_future(calling)
    heard = 0
    while not asking.done():
        if len(speaker.paused) > heard:
            pause = speaker.paused[heard]
            heard += 1
            (await listening(one, pause)).interrupt(is_last=False)
            pause.over.set()
        await asyncio.wait({asking}, timeout=0.001)
    return asking.result()


async def listening(one: Edge, pause: Pause) -> LiveAttempt:
    """The attempt that pauses, once all that it has said is counted."""
    async with asyncio.timeout(SETTLED_WITHIN_S):
        while True:
            for attempt in one.parts.mover.attempts:
                meter = attempt.open_call.meter
                if attempt.standing(0.0, has_place=True) is not None and pause.frames == (
                    0 if meter is None else meter.frames
                ):
                    return attempt
            await asyncio.sleep(0.001)


@st.composite
def answers(draw: st.DrawFn) -> list[Said]:
    """Frames of up to three choices, each of which says something."""
    choices = draw(st.integers(1, 3))
    turns = draw(st.lists(st.integers(0, choices - 1), min_size=1, max_size=10))
    turns += range(choices)
    words = st.text("ab \n", max_size=3)
    return [Said(index, draw(words) or "x", draw(st.integers(1, 4))) for index in turns]


@given(
    frames=answers(),
    cuts=st.lists(st.integers(1, 12), min_size=1, max_size=MOVES_MAX),
    by_notice=st.booleans(),
    path=st.sampled_from(sorted(BODIES)),
    stream=st.booleans(),
)
@settings(max_examples=40)
def test_call_that_moved_is_the_one_that_was_never_cut(
    bench: Bench, frames: list[Said], cuts: list[int], by_notice: bool, path: str, stream: bool
) -> None:
    """Whatever frame a replica dies behind, or ends after a notice and says the rest all the same.
    Also several times."""
    wanted = BODIES[path]
    if path in (CHAT, COMPLETIONS):
        wanted = wanted | {"n": max(frame.index for frame in frames) + 1}
    else:
        frames = [frame for frame in frames if frame.index == 0]
    if stream:
        wanted = wanted | {"stream": True}
    undisturbed, expected = bench.runner.run(answer(bench, Speaker(frames), path, wanted))
    deaths, pauses = ((), cuts) if by_notice else (cuts, ())
    speaker = Speaker(frames, deque(deaths), deque(pauses))
    response, call = bench.runner.run(answer(bench, speaker, path, wanted))
    assert response.status == undisturbed.status == 200
    assert said_in(response, path, stream) == said_in(undisturbed, path, stream)
    assert b'"error":{' not in response.body
    assert (call.status, call.finish_reason) == (expected.status, expected.finish_reason)
    assert (call.input, call.cached_input, call.output) == (
        expected.input,
        expected.cached_input,
        expected.output,
    )
    assert call.amount_nanousd == expected.amount_nanousd
    *left, last = [attempt.outcome for attempt in call.attempts]
    assert (last, left) == ("answered", ["moved"] * moves_of(cuts, len(frames)))
    assert [attempt.kind for attempt in call.attempts] == ["first", *(["resume"] * len(left))]
    assert sum(attempt.output for attempt in call.attempts) == call.output


def moves_of(cuts: list[int], frames: int) -> int:
    """A replica that ends behind its last word leaves nothing to move."""
    moves = 0
    for cut in cuts:
        frames -= cut
        if frames <= 0:
            break
        moves += 1
    return moves


def said_in(response: Response, path: str, stream: bool) -> object:
    """Each event, or the whole, without names and times."""
    if not stream:
        return scrubbed(response.json)
    lines = response.body.decode().splitlines()
    events = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    return [event if event == "[DONE]" else scrubbed(json.loads(event)) for event in events]


VOLATILE = ("id", "created", "created_at", "completed_at", "request_id", "item_id")


def scrubbed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: scrubbed(each) for key, each in value.items() if key not in VOLATILE}
    if isinstance(value, list):
        return [scrubbed(each) for each in value]
    return value


async def post(one: Edge, speaker: Speaker, **fields: object) -> tuple[Response, SettledCall]:
    one.upstream.behaviour = speaker
    response = await one.post(BODIES[CHAT] | {"stream": True} | fields)
    [call] = (await one.settled()).values()
    return response, call


def text_of(response: Response) -> str:
    pieces = [choice["delta"] for chunk in response.chunks for choice in chunk.get("choices", ())]
    return "".join(piece.get("content") or "" for piece in pieces)


def outcomes(call: SettledCall) -> list[str]:
    return [attempt.outcome for attempt in call.attempts]


async def test_replay_is_our_cost_in_its_attempt_and_no_token_of_any_usage(one: Edge) -> None:
    response, call = await post(one, Speaker(STORY, deque([4])))
    assert text_of(response) == texts(STORY)[0]
    moved, answered = call.attempts
    assert (moved.outcome, moved.output, moved.busy_us) == ("moved", 8, BUSY_US * (PROMPT + 8))
    assert (answered.outcome, answered.output) == ("answered", 4)
    assert answered.busy_us == BUSY_US * (PROMPT + 12), "it computed what had come before, too"
    assert moved.replica != answered.replica
    assert (call.input, call.cached_input, call.output) == (PROMPT - 4, 4, 12)


async def test_stream_moves_so_often_and_no_oftener(one: Edge) -> None:
    response, call = await post(one, Speaker(STORY, deque([1] * (MOVES_MAX + 1))))
    assert outcomes(call) == ["moved"] * MOVES_MAX + ["cut"]
    assert response.chunks[-1]["error"]["code"] == "upstream_disconnected"
    assert "[DONE]" not in response.events
    assert (call.status, call.output) == (CallStatus.FAILED, 2 * (MOVES_MAX + 1))


async def test_whole_answer_that_moved_too_often_is_begun_anew(one: Edge) -> None:
    speaker = Speaker(STORY, deque([1] * (MOVES_MAX + 1)))
    response, call = await post(one, speaker, stream=False)
    assert response.json["choices"][0]["message"]["content"] == texts(STORY)[0]
    assert outcomes(call) == ["moved"] * MOVES_MAX + ["cut", "answered"]
    assert speaker.resumes[-1] is None
    assert call.output == 12


async def test_what_refuses_to_go_on_does_not_hide_how_the_answer_was_cut(one: Edge) -> None:
    """As vLLM does where it could not be exact."""
    refusal = fake.refusal(400, {"message": "no", "code": "unsupported_parameter", "param": "x"})
    response, call = await post(one, Speaker(STORY, deque([3]), refusal=refusal))
    assert response.chunks[-1]["error"]["code"] == "upstream_disconnected"
    assert outcomes(call) == ["cut", "rejected"]
    assert (call.status, call.output, text_of(response)) == (
        CallStatus.FAILED,
        6,
        "word0 word1 word2 ",
    )


@pytest.mark.parametrize(
    "dies_by",
    [[fake.Stall()], [fake.Send(b"data: {nonsense\n\n"), fake.Stall()]],
    ids=["stalls", "talks nonsense"],
)
async def test_replica_that_does_not_die_but_says_no_more_is_left(
    one: Edge, dies_by: list[fake.Act]
) -> None:
    response, call = await post(one, Speaker(STORY, deque([3]), dies_by=dies_by))
    assert text_of(response) == texts(STORY)[0]
    assert outcomes(call) == ["moved", "answered"]
    assert (call.input, call.cached_input, call.output) == (PROMPT - 4, 4, 12)
    assert len({attempt.replica for attempt in call.attempts}) == 2


async def test_stream_without_token_ids_ends_as_it_did(one: Edge) -> None:
    one.upstream.scripts.append(fake.stream(fake.own_frame("a", 3), then=[fake.Reset()]))
    response, call = await post(one, Speaker(STORY))
    assert response.chunks[-1]["error"]["code"] == "upstream_disconnected"
    assert outcomes(call) == ["cut"]


async def test_another_pool_of_the_same_variant_goes_on_where_no_replica_is_left(
    one: Edge,
) -> None:
    speaker = Speaker(STORY, deque([3]))
    await one.publish_fleet(one.replica("only"))
    fleet = json.loads(await one.redis.get("sluice:fleet") or b"{}")
    fleet["pools"][1] |= {"target": 1, "replicas": [one.replica("spot-1")]}
    await one.redis.set("sluice:fleet", json.dumps(fleet))
    await one.parts.fleet.refresh()
    response, call = await post(one, speaker)
    assert text_of(response) == texts(STORY)[0]
    assert sorted(attempt.pool for attempt in call.attempts) == sorted(POOLS[:2])
    assert call.pool == call.attempts[-1].pool
    assert outcomes(call) == ["moved", "answered"]


async def test_caller_that_leaves_while_its_answer_moves_pays_for_what_came(one: Edge) -> None:
    """Nobody else is there, so the move waits."""
    await one.publish_fleet(one.replica("only"))

    async def once_it_waits(response: Response) -> None:
        await one.waits()

    one.upstream.behaviour = Speaker(STORY, deque([3]))
    wanted = BODIES[CHAT] | {"stream": True}
    response = await one.post(wanted, leave=once_it_waits)
    [call] = (await one.settled()).values()
    assert text_of(response) == "word0 word1 word2 "
    assert (call.status, call.output, outcomes(call)) == (CallStatus.CANCELLED, 6, ["cut"])


async def test_answer_goes_on_at_a_replica_that_becomes_warm(one: Edge) -> None:
    await one.publish_fleet(one.replica("only"))
    one.upstream.behaviour = Speaker(STORY, deque([3]))
    asking = asyncio.create_task(one.post(BODIES[CHAT] | {"stream": True}))
    await one.waits()
    await one.publish_fleet(one.replica("new"))
    assert text_of(await asking) == texts(STORY)[0]
    [call] = (await one.settled()).values()
    assert [attempt.replica for attempt in call.attempts] == ["only", "new"]


async def test_money_ends_an_answer_that_moved_where_it_would_have_ended_it(one: Edge) -> None:
    """What may be said at most counts all attempts together."""
    for deaths in ([], [2]):
        one.upstream.behaviour = Speaker(STORY, deque(deaths))
        response = await one.post(BODIES[CHAT] | {"stream": True, "max_tokens": 7})
        assert text_of(response) == "word0 word1 word2 "
        assert response.chunks[-1]["choices"][0]["finish_reason"] == "length"
    calls = (await one.settled()).values()
    assert [call.output for call in calls] == [6, 6]
