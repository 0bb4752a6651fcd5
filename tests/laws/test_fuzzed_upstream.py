"""Whatever bytes an upstream sends, on whichever route they are asked for: the relay stands.

Every call gets one whole answer with a status that is no bug (never a 500), which OpenAI's document
knows, event by event; a stream says that it is complete or that it failed and never both, nothing
stays open, the money adds up, and no task ends in an exception that nobody saw.
"""

from __future__ import annotations

import asyncio
import json
import logging
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from billing.limits.holds import Holds
from gateway.upstream import fake
from tests.gateway.edge import API_KEY, CHAT, COMPLETIONS, EMBEDDINGS, Edge, Response, body, edge
from tests.laws.examples import examples
from tests.openai_api.valid import assert_answer
from tests.redis_server import RedisServer

RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"
ASKED = [{"role": "user", "content": "Tell a story."}]
BODIES: dict[str, dict[str, Any]] = {
    CHAT: body(stream_options=None),
    COMPLETIONS: {"model": "tale", "prompt": "Once", "max_tokens": 64},
    RESPONSES: {"model": "tale", "input": "Tell a story.", "max_output_tokens": 64},
    MESSAGES: {"model": "tale", "messages": ASKED, "max_tokens": 64},
    EMBEDDINGS: {"model": "vectors", "input": "Once"},
}
BUSY = fake.refusal(503, {"message": "busy"})
QUICK = {
    "first_token_timeout_s": 0.25,
    "idle_timeout_s": 0.25,
    "external_first_token_timeout_s": 0.25,
    "external_idle_timeout_s": 0.25,
    "connect_timeout_s": 1.0,
}
COMPLETE = {"[DONE]", "response.completed", "response.incomplete", "message_stop"}


@dataclass(slots=True)
class Bench:
    """One gateway for all examples, on a loop that runs while one of them does."""

    runner: asyncio.Runner
    edge: Edge
    outside: fake.FakeUpstream
    unseen: list[dict[str, Any]] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=count)


@asynccontextmanager
async def _gateway(
    server: RedisServer, folder: Path
) -> AsyncIterator[tuple[Edge, fake.FakeUpstream]]:
    """With own workers and, cheaper than those, a server outside."""
    async with (
        fake.FakeUpstream(lambda _: BUSY) as outside,
        server.client() as redis,
        edge(server, redis, folder, gateway=QUICK, outer=outside.address) as running,
    ):
        await running.publish_fleet(*(running.replica(name) for name in ("r1", "r2", "r3")))
        running.holds = Holds(redis, timeout_s=30.0)  # to look at the money on a busy machine
        yield running, outside


@pytest.fixture
def bench() -> Iterator[Bench]:
    with (
        tempfile.TemporaryDirectory(prefix="sluice-") as folder,
        RedisServer(Path(folder)) as server,
        asyncio.Runner() as runner,
    ):
        gateway = _gateway(server, Path(folder))
        found = Bench(runner, *runner.run(gateway.__aenter__()))
        runner.get_loop().set_exception_handler(lambda _, seen: found.unseen.append(seen))
        yield found
        assert found.outside.requests and found.edge.upstream.requests, "both were asked"
        runner.run(gateway.__aexit__(None, None, None))


# --- what an upstream may send -------------------------------------------------------------------

NUMBERS = st.sampled_from(
    [0, 1, 7, 255, 2**31, 10**12, 2**53, 2**63, 2**70, -1, 1.5, 1e308, None, "9", [], True]
)
WORDS = st.sampled_from(["", "a", "é\U0001f600", "\x00", "\ud800", "x" * 2000, "[DONE]", "data: "])
REASONS = st.sampled_from(
    [
        *(None, None, "stop", "stop", "length", "tool_calls", "content_filter", "function_call"),
        *("", "eos_token", "max_tokens", "abort", "error", 5),
    ]
)


SAID = st.one_of(WORDS, st.just(None))
INDEXES = st.one_of(st.just(0), st.just(0), NUMBERS)


@st.composite
def chunks(draw: st.DrawFn) -> bytes:
    """An event that is nearly right, or anything."""
    delta: dict[str, Any] = {"content": draw(WORDS)}
    for more in draw(st.lists(st.sampled_from(["refusal", "reasoning_content", "x"]), max_size=2)):
        delta[more] = draw(SAID)
    if draw(st.booleans()):
        function = {"name": draw(SAID), "arguments": draw(SAID), "x": 1}
        call = {"index": draw(INDEXES), "id": draw(SAID), "type": "f", "function": function}
        delta["tool_calls"] = [call]
    choice = {"index": draw(st.sampled_from([0, 0, 0, 0, 1, -1, "0"])), "delta": delta}
    choice["finish_reason"] = draw(REASONS)
    event: dict[str, Any] = {"choices": draw(st.sampled_from([[choice], [choice], [], None, 3]))}
    if draw(st.booleans()):
        used = {name: draw(NUMBERS) for name in ("input", "cached_input", "output")}
        event["sluice"] = {"v": 1, "position": draw(NUMBERS), "usage": used}
    if draw(st.booleans()):
        names = ("prompt_tokens", "completion_tokens", "total_tokens")
        event["usage"] = {name: draw(NUMBERS) for name in names}
    if draw(st.integers(0, 9)) == 0:
        event["error"] = draw(st.sampled_from([{"message": "died"}, "died", {"code": 5}, None]))
    return b"data: " + json.dumps(event).encode() + draw(st.sampled_from([b"\n\n", b"\r\n\r\n"]))


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """An answer in one piece, which servers outside are asked for, nearly right."""
    call = {"id": draw(SAID), "type": "f", "function": {"name": draw(SAID), "arguments": "{}"}}
    said = {"role": "assistant", "content": "a", "refusal": draw(SAID), "tool_calls": [call]}
    message = draw(st.sampled_from([{"role": "assistant", "content": "a"}, said, {}, None, "a"]))
    choice = {"index": 0, "message": message, "text": draw(WORDS), "finish_reason": draw(REASONS)}
    used = {"prompt_tokens": draw(NUMBERS), "completion_tokens": draw(NUMBERS)}
    choices = draw(st.sampled_from([[choice], [choice], [choice, choice], [], None]))
    return json.dumps({"choices": choices, "usage": draw(st.sampled_from([used, None]))}).encode()


GOOD = b"".join(
    [*(fake.own_frame(f"word{n} ", n) for n in range(1, 4)), fake.own_frame("", 4, finish="stop")]
)
PLAIN = b"".join([*(fake.plain_frame(f"word{n} ") for n in range(1, 4))])
"""As a server outside says it, which goes on from there if it is cut."""
PIECES = st.one_of(
    chunks(),
    st.just(GOOD),
    st.just(PLAIN),
    st.just(PLAIN + fake.plain_frame("", "stop") + fake.plain_usage(10, 10**12)),
    st.just(PLAIN + b"data: {\n\n" + fake.plain_frame("", "stop") + fake.plain_usage(10, 4)),
    st.just(fake.DONE),
    st.just(fake.own_frame("a", 2)),
    st.sampled_from([b": ping\n\n", b"event: x\n\n", b"\n\n", b"data:\n\n", b"data: {\n\n"]),
    st.binary(max_size=40),
    st.just(fake.own_vectors({0: [1.0, 2.0]}, 4)),
    documents(),
)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """A story with something before, within and behind it, and a few bytes changed."""
    data = bytearray(b"".join(draw(st.lists(PIECES, max_size=6))))
    for place in draw(st.lists(st.integers(0, 5000), max_size=3)):
        if place < len(data):
            data[place] = (data[place] * 7 + 13) % 256
    return bytes(data[: draw(st.sampled_from([None, None, 5, 60, 300]))])


ENDS = st.sampled_from(
    [[], [], [], [fake.Close()], [fake.Reset()], [fake.Pause(0.01), fake.Reset()], [fake.Stall()]]
)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
ODD_HEADS = st.sampled_from(
    [
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 30_000,
        HEAD + b"x: " + b"y" * 200_000,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 5 + HEAD + b"connection: close\r\n\r\n" + GOOD,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 9_000,
        b"HTTP/9.9 200 OK\r\n\r\n",
        b"HTTP/1.1 999 Odd\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 204 Nothing\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\nxx",
        b"ICY 200 OK\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        HEAD + b"content-length: -5\r\n\r\n" + GOOD,
        HEAD + b"content-length: 5\r\ncontent-length: 6\r\n\r\n" + GOOD,
        HEAD + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n" + GOOD,
        HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n" + GOOD,
        HEAD + b"transfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n" + GOOD,
        HEAD + b"transfer-encoding: chunked\r\n\r\n5\r\nabcdefgh",
        HEAD + b"content-encoding: gzip\r\nconnection: close\r\n\r\n\x1f\x8b\x08nonsense",
        HEAD + b"content-encoding: gzip\r\nconnection: close\r\n\r\n" + GOOD,
        HEAD.replace(b"event-stream", b"html") + b"connection: close\r\n\r\n<html>" + GOOD,
        HEAD + b"connection: close\r\n\r\n" + GOOD,
        HEAD + b"content-length: %d\r\n\r\n" % len(GOOD) + GOOD + b"HTTP/1.1 200 OK\r\n\r\n",
    ]
)
STATUSES = st.sampled_from([200, 200, 201, 302, 400, 401, 404, 409, 422, 429, 500, 503, 529])


@st.composite
def scripts(draw: st.DrawFn) -> fake.Script:
    end: list[fake.Act] = list(draw(ENDS))
    kind = draw(st.sampled_from(["events", "events", "events", "length", "head", "refusal"]))
    data = draw(bodies())
    if kind == "head":
        return fake.Script([fake.Raw(draw(ODD_HEADS)), *end], status=None)
    if kind == "length":
        wrong = max(0, len(data) + draw(st.sampled_from([0, -1, 1, -20, 20, 10**9])))
        head = HEAD + b"content-length: %d\r\n\r\n" % wrong
        return fake.Script([fake.Raw(head + data), *end], status=None)
    if kind == "refusal":
        error = json.dumps({"error": draw(st.sampled_from([None, "no", {"message": 5}]))}).encode()
        return fake.Script([fake.Send(error), *end], draw(STATUSES))
    cuts = draw(st.lists(st.integers(1, max(1, len(data))), max_size=8))
    if draw(st.booleans()):
        return fake.Script([*fake.cut_into(data, cuts), *end])
    cuts = draw(st.lists(st.integers(1, 200), max_size=3))
    acts = [*fake.cut_into(draw(documents()), cuts), *end]
    return fake.Script(acts, headers=(("content-type", "application/json"),))


# --- what a caller may see -----------------------------------------------------------------------


async def _ask(one: Edge, path: str, stream: bool, key: str | None) -> Response:
    wanted = BODIES[path] | ({} if path == EMBEDDINGS else {"stream": stream})
    named = {"x-sluice-deadline-ms": "700", "x-api-key": API_KEY}
    if key is not None:
        named["idempotency-key"] = key
    return await one.post(wanted, path=path, headers=named)


def _ends(response: Response) -> set[str]:
    """How a stream says that it has ended, in any dialect's words."""
    found = {"[DONE]"} & set(response.events)
    for line in response.body.decode().splitlines():
        if line.startswith("data: {"):
            said = json.loads(line.removeprefix("data: "))
            kind = said.get("type")
            if kind == "error" or isinstance(said.get("error"), dict):
                found.add("error")
            elif kind in COMPLETE:
                found.add(kind)
    return found


def _check(path: str, response: Response, stream: bool) -> None:
    assert response.is_complete
    assert_answer(path, response.status, response.headers["content-type"], response.body)
    assert response.status in (200, 400, 502, 503, 504), response.body
    if response.status != 200:
        assert isinstance(response.json["error"], dict)
        assert ("retry-after" in response.headers) == (response.status in (503, 504))
    elif stream and response.headers["content-type"].startswith("text/event-stream"):
        assert len(_ends(response)) == 1, response.body[-2000:]


CALLS = st.tuples(st.sampled_from(list(BODIES)), st.booleans(), st.booleans(), st.booleans())
"""A route; streamed, under a key, and first by the server outside: or not."""
SENT = st.lists(scripts(), min_size=1, max_size=4)
ABORTED = [fake.stream(fake.plain_frame("a"), fake.plain_frame("b", "abort"), fake.DONE)]
NULLS = {"index": 0, "id": None, "type": "function", "function": {"name": None, "arguments": ""}}
CALLING = {"choices": [{"index": 0, "delta": {"content": None, "x": "y", "tool_calls": [NULLS]}}]}
CALLED = [fake.stream(fake.event(CALLING), fake.plain_frame("", "tool_calls"), fake.DONE)]


@settings(max_examples=examples(25), suppress_health_check=list(HealthCheck))
@given(call=CALLS, sent=SENT)
@example(call=(CHAT, True, False, True), sent=ABORTED)
@example(call=(COMPLETIONS, True, False, True), sent=ABORTED)
@example(call=(CHAT, True, False, True), sent=CALLED)
def test_no_upstream_crashes_the_relay_or_unbalances_the_ledger(
    bench: Bench,
    caplog: pytest.LogCaptureFixture,
    call: tuple[str, bool, bool, bool],
    sent: list[fake.Script],
) -> None:
    _example(bench, caplog, call, sent)


@pytest.mark.long
@pytest.mark.timeout(1200)
@settings(max_examples=500, suppress_health_check=list(HealthCheck))
@given(call=CALLS, sent=SENT)
def test_no_upstream_does_in_the_long_run(
    bench: Bench,
    caplog: pytest.LogCaptureFixture,
    call: tuple[str, bool, bool, bool],
    sent: list[fake.Script],
) -> None:
    _example(bench, caplog, call, sent)


def _example(
    bench: Bench,
    caplog: pytest.LogCaptureFixture,
    call: tuple[str, bool, bool, bool],
    sent: list[fake.Script],
) -> None:
    caplog.clear()
    caplog.set_level(logging.ERROR)
    bench.unseen.clear()
    bench.runner.run(_one_example(bench, *call, sent))
    assert not bench.unseen
    assert "unexpectedly" not in caplog.text


async def _one_example(
    bench: Bench,
    path: str,
    stream: bool,
    is_keyed: bool,
    is_outside: bool,
    sent: list[fake.Script],
) -> None:
    one = bench.edge
    bench.outside.scripts.clear()
    bench.outside.scripts.extend(sent if is_outside else [])
    bench.outside.behaviour = lambda _: BUSY
    one.upstream.scripts.clear()
    one.upstream.scripts.extend(sent)
    one.upstream.behaviour = lambda _: sent[-1]
    key = f"example {next(bench.numbers)}" if is_keyed else None
    first = await _ask(one, path, stream, key)
    _check(path, first, stream)
    before = await one.settled()
    if key is None:
        return
    again = await _ask(one, path, stream, key)
    _check(path, again, stream)
    assert "idempotent-replayed" not in first.headers
    if "idempotent-replayed" in again.headers:
        assert (again.status, again.body) == (first.status, first.body)
        assert await one.settled() == before, "told again, not run again"
    else:
        free = before[first.headers["x-request-id"]] if before else None
        assert free is None or first.status != 200 or not free.amount_nanousd
