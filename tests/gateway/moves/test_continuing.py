"""An answer of a server outside whose stream is cut goes on: its text is continued, or its call is
asked anew and compared. The caller sees one answer, one end and one charge."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from redis.asyncio import Redis

from billing.limits.holds import Holds
from billing.types import CallStatus, SettledCall
from gateway.moves.joint import DIFFERS
from gateway.moves.move import MOVES_MAX
from gateway.upstream import fake
from routing.health.breaker import Breaker
from tests.gateway.edge import CHAT, COMPLETIONS, FAR, Edge, Response, edge
from tests.gateway.moves.teller import PROMPT, Teller
from tests.redis_server import RedisServer

SAID = [{"role": "user", "content": "Tell a story."}]
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"model": FAR, "messages": SAID, "max_tokens": 64},
    COMPLETIONS: {"model": FAR, "prompt": "Once", "max_tokens": 64},
    "/v1/responses": {"model": FAR, "input": "Tell.", "max_output_tokens": 64},
    "/v1/messages": {"model": FAR, "messages": SAID, "max_tokens": 64},
}
STORY = ["word0", *(f" word{number}" for number in range(1, 6))]
TEXT = "".join(STORY)
QUICK = {"external_idle_timeout_s": 0.3, "external_first_token_timeout_s": 2.0}
KINDS = ("prefix", "anew", "off")
CLOSE: list[fake.Act] = [fake.Close()]
RESET: list[fake.Act] = [fake.Reset()]
STALL: list[fake.Act] = [fake.Stall()]
CHATTER: list[fake.Act] = [
    act for _ in range(200) for act in (fake.Pause(0.05), fake.Send(b": still here\n\n"))
]
"""Comments without a token."""
ENDED: list[fake.Act] = []
"""The stream ends properly, only too early."""
HOW = {"close": CLOSE, "reset": RESET, "stall": STALL, "chatter": CHATTER, "end": ENDED}


@asynccontextmanager
async def outer(
    server: RedisServer, redis: Redis, folder: Path, kind: str
) -> AsyncIterator[tuple[Edge, fake.FakeUpstream]]:
    """A gateway before one server outside, whose answers go on so."""
    pool = {"model": FAR, "continues": kind}
    async with (
        fake.FakeUpstream(Teller(STORY)) as outside,
        edge(server, redis, folder, gateway=QUICK, outer=outside.address, outer_pool=pool) as one,
    ):
        one.holds = Holds(redis, timeout_s=30.0)
        yield one, outside


@dataclass(slots=True)
class Bench:
    """Gateways that stay, one for each way to go on."""

    runner: asyncio.Runner
    gateways: dict[str, tuple[Edge, fake.FakeUpstream]]
    settled: frozenset[str] = frozenset()


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder, asyncio.Runner() as runner:
        opened = [_served(Path(folder) / kind, kind) for kind in KINDS]
        gateways = {
            kind: runner.run(gateway.__aenter__())
            for kind, gateway in zip(KINDS, opened, strict=True)
        }
        yield Bench(runner, gateways)
        for gateway in opened:
            runner.run(gateway.__aexit__(None, None, None))


@asynccontextmanager
async def _served(folder: Path, kind: str) -> AsyncIterator[tuple[Edge, fake.FakeUpstream]]:
    folder.mkdir()  # noqa: ASYNC240
    with RedisServer(folder) as server:
        async with server.client() as redis, outer(server, redis, folder, kind) as running:
            yield running


def call(
    bench: Bench, kind: str, teller: Teller, path: str = CHAT, **fields: Any
) -> tuple[Response, SettledCall]:
    """The answer to one call and its only record. What became of calls before is forgotten."""
    return bench.runner.run(_call(bench, kind, teller, path, fields))


async def _call(
    bench: Bench, kind: str, teller: Teller, path: str, fields: dict[str, Any]
) -> tuple[Response, SettledCall]:
    one, outside = bench.gateways[kind]
    await one.heals()
    outside.behaviour = teller
    cast(dict[str, Breaker], one.parts.breakers.by_scope).clear()
    response = await one.post(BODIES[path] | {"stream": True} | fields, path=path)
    calls = await one.settled()
    [rid] = calls.keys() - bench.settled
    bench.settled |= {rid}
    await outside.all_hung_up(within_s=10)
    return response, calls[rid]


def text_of(path: str, response: Response) -> str:
    """What a stream says, in any dialect."""
    said = []
    for event in _events(response):
        if path == CHAT:
            said += [choice["delta"].get("content") or "" for choice in event.get("choices", ())]
        elif path == COMPLETIONS:
            said += [choice["text"] for choice in event.get("choices", ())]
        elif event.get("type") == "response.output_text.delta":
            said.append(event["delta"])
        elif event.get("type") == "content_block_delta":
            said.append(event["delta"]["text"])
    return "".join(said)


def _events(response: Response) -> list[dict[str, Any]]:
    lines = response.body.decode().splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


COMPLETE = {"response.completed", "message_stop"}


def ends_of(response: Response) -> list[str]:
    """How a stream says that it is over: `whole` or `error`, each time that it does."""
    ends = ["whole"] * response.body.decode().splitlines().count("data: [DONE]")
    for event in _events(response):
        if event.get("type") == "error" or isinstance(event.get("error"), dict):
            ends.append("error")
        elif event.get("type") in COMPLETE:
            ends.append("whole")
    return ends


def outcomes(record: SettledCall) -> list[str]:
    return [attempt.outcome for attempt in record.attempts]


def test_text_that_ends_with_white_space_is_continued_behind_it_once(bench: Bench) -> None:
    """Chat templates cut that off, so the second answer has to begin with it."""
    story = ["Once upon a time\n", "\n", "there was", " a gateway."]
    for ended in (1, 2):
        response, record = call(bench, "prefix", Teller(story, deque([(ended, CLOSE)])))
        assert (text_of(CHAT, response), ends_of(response)) == ("".join(story), ["whole"])
        assert outcomes(record) == ["moved", "answered"]
        assert record.usage.prompt <= PROMPT and record.output == len(story)


# --- the scenarios -------------------------------------------------------------------------------


PATHS_AND_ENDS = [(path, "close") for path in sorted(BODIES)] + [
    (CHAT, name) for name in HOW if name != "close"
]


@pytest.mark.parametrize("kind", ["prefix", "anew"])
@pytest.mark.parametrize(("path", "how"), PATHS_AND_ENDS)
def test_stream_that_is_cut_or_stalls_goes_on_as_one(
    bench: Bench, kind: str, path: str, how: str
) -> None:
    """S08, S09 and S11: at 40 % of the answer, and again at 60 % of it."""
    ends = HOW[how]
    again = 1 if kind == "prefix" else 4
    teller = Teller(STORY, deque([(2, ends), (again, ends)]))
    response, record = call(bench, kind, teller, path)
    assert (text_of(path, response), ends_of(response)) == (TEXT, ["whole"])
    assert outcomes(record) == ["moved", "moved", "answered"]
    assert (record.status, record.finish_reason) == (CallStatus.ANSWERED, "stop")
    assert (record.usage.prompt, record.output) == (PROMPT, len(STORY))


@pytest.mark.parametrize("kind", KINDS)
def test_whole_answer_whose_stream_is_cut_is_whole(bench: Bench, kind: str) -> None:
    """More than one slice is asked for, so it comes as a stream; nobody has seen its beginning."""
    teller = Teller(STORY, deque([(2, CLOSE), (1, STALL)]))
    response, record = call(bench, kind, teller, stream=False, max_tokens=2_000)
    assert response.json["choices"][0]["message"]["content"] == TEXT
    assert (record.usage.prompt, record.output) == (PROMPT, len(STORY))
    left = {"prefix": "moved"}.get(kind, "cut")
    assert outcomes(record) == [left, left, "answered"]


@pytest.mark.parametrize("path", sorted(BODIES))
def test_s14_server_that_refuses_to_continue_a_text_is_asked_anew(bench: Bench, path: str) -> None:
    teller = Teller(STORY, deque([(2, CLOSE)]), refuses_prefix=True)
    response, record = call(bench, "prefix", teller, path)
    assert (text_of(path, response), ends_of(response)) == (TEXT, ["whole"])
    assert outcomes(record) == ["moved", "rejected", "answered"]
    assert (record.usage.prompt, record.output) == (PROMPT, len(STORY))


def test_g37_refusal_of_the_second_never_hides_how_the_first_was_cut(bench: Bench) -> None:
    """S14, where it refuses both: what has come stands, and is paid once."""
    teller = Teller(STORY, deque([(2, CLOSE)]), refuses_prefix=True, refuses_again=True)
    response, record = call(bench, "prefix", teller)
    assert (text_of(CHAT, response), ends_of(response)) == ("".join(STORY[:2]), ["error"])
    assert response.chunks[-1]["error"]["code"] == "upstream_disconnected"
    assert outcomes(record) == ["cut", "rejected", "rejected"]
    assert (record.status, record.output) == (CallStatus.FAILED, 2)


def test_answer_that_begins_otherwise_is_not_joined(bench: Bench) -> None:
    """Three others are asked, then the stream ends with an error: nothing is told twice."""
    other = ["Quite", " another", " story"]
    teller = Teller(STORY, deque([(2, CLOSE)]), stories=deque([STORY, other, other, other]))
    response, record = call(bench, "anew", teller)
    assert (text_of(CHAT, response), ends_of(response)) == ("".join(STORY[:2]), ["error"])
    assert outcomes(record) == ["moved"] * MOVES_MAX + ["cut"]
    assert record.output == 2
    assert [attempt.detail for attempt in record.attempts[1:]] == [DIFFERS] * MOVES_MAX


def test_answer_that_ends_before_what_was_sent_is_not_joined(bench: Bench) -> None:
    teller = Teller(STORY, deque([(4, CLOSE)]), stories=deque([STORY, STORY[:2], STORY]))
    response, record = call(bench, "anew", teller)
    assert (text_of(CHAT, response), ends_of(response)) == (TEXT, ["whole"])
    assert outcomes(record) == ["moved", "moved", "answered"]


def test_pool_whose_answers_do_not_go_on_ends_its_stream_with_an_error(bench: Bench) -> None:
    response, record = call(bench, "off", Teller(STORY, deque([(3, CLOSE)])))
    assert (text_of(CHAT, response), ends_of(response)) == ("".join(STORY[:3]), ["error"])
    assert (outcomes(record), record.output) == (["cut"], 3)


def test_second_prompt_is_our_cost_in_its_attempt(bench: Bench) -> None:
    _, record = call(bench, "prefix", Teller(STORY, deque([(4, CLOSE)])))
    first, second = record.attempts
    assert (first.outcome, first.output) == ("moved", 4)
    assert (second.input, second.output) == (PROMPT + 4, 2), "what it read and wrote"
    assert (record.input, record.output) == (PROMPT, 6)
    _, record = call(bench, "anew", Teller(STORY, deque([(4, CLOSE)])))
    first, second = record.attempts
    assert (second.input, second.output) == (PROMPT, 6), "it wrote all of it again"
    assert (record.input, record.output) == (PROMPT, 6)


def test_text_is_continued_within_what_is_left_of_its_tokens(bench: Bench) -> None:
    teller = Teller(STORY, deque([(2, CLOSE)]))
    call(bench, "prefix", teller)
    assert [body["max_tokens"] for body in teller.asked] == [64, 62]
    assert teller.asked[1]["messages"] == [*SAID, {"role": "assistant", "content": "word0 word1"}]


@pytest.mark.parametrize(
    "formed",
    [
        {"response_format": {"type": "json_object"}},
        {"tools": [{"type": "function", "function": {"name": "look", "parameters": {}}}]},
        {"n": 1, "logprobs": True},
    ],
    ids=["a form", "tools", "log probabilities"],
)
def test_answer_with_a_form_of_its_own_is_asked_anew(bench: Bench, formed: dict[str, Any]) -> None:
    teller = Teller(STORY, deque([(2, CLOSE)]))
    response, record = call(bench, "prefix", teller, **formed)
    assert (text_of(CHAT, response), ends_of(response)) == (TEXT, ["whole"])
    assert teller.asked[1] == teller.asked[0]
    assert outcomes(record) == ["moved", "answered"]


def test_call_of_a_tool_that_was_begun_ends_with_an_error(bench: Bench) -> None:
    piece = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "look"}}
    begun = fake.event({"choices": [{"index": 0, "delta": {"tool_calls": [piece]}}]})
    _, outside = bench.gateways["anew"]
    outside.scripts.append(fake.stream(begun, then=CLOSE))
    response, record = call(bench, "anew", Teller(STORY))
    assert ends_of(response) == ["error"]
    assert outcomes(record) == ["cut"]
