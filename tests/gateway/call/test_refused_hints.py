"""A server outside that refuses a hint: the same call goes to it without, and no tenant reads a
400 for a hint."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from billing.types import SettledCall
from gateway.upstream import fake
from gateway.upstream.hints import REFUSED_S
from tests.gateway.edge import CHAT, FAR, OUTPUT_PRICE, Edge, Response, body, edge
from tests.redis_server import RedisServer

PROMPT, OUTPUT = 7, 3
INPUT_PRICE = 1_000_000_000
UNKNOWN = {"message": "Unrecognized request argument supplied: {}", "type": "invalid_request_error"}
NAMED = {"message": "Unsupported parameter.", "param": "{}", "code": "unsupported_parameter"}
MODEL = {"message": "Model their-tale does not support {}.", "param": "model"}
PROXY = {"message": "UnsupportedParamsError: ['{}']", "param": "None", "code": "400"}
PYDANTIC = {"detail": [{"type": "extra_forbidden", "loc": ["body", "{}"], "input": "high"}]}
OLLAMA = {"message": '"their-tale" does not support thinking'}
VALUE = {"message": "Unsupported value: '{}' does not support it.", "param": "{}"}
REFUSALS: dict[str, tuple[int, dict[str, Any]]] = {
    "OpenAI, unknown": (400, {"error": UNKNOWN}),
    "OpenAI, param": (400, {"error": NAMED}),
    "OpenAI, value": (400, {"error": VALUE}),
    "the model is named": (400, {"error": MODEL}),
    "a proxy": (400, {"error": PROXY}),
    "pydantic": (422, PYDANTIC),
    "vLLM, older": (400, {"object": "error", **UNKNOWN}),
    "Ollama": (400, {"error": OLLAMA}),
}
EFFORT, VERBOSITY = "reasoning_effort", "verbosity"
ROUTES: dict[str, tuple[str, dict[str, Any], str]] = {
    "chat, effort": (CHAT, body(reasoning_effort="high"), EFFORT),
    "chat, verbosity": (CHAT, body(verbosity="low"), VERBOSITY),
    "chat, thinking": (CHAT, body(thinking={"type": "enabled"}), "thinking"),
    "chat, retention": (CHAT, body(prompt_cache_retention="24h"), "prompt_cache_retention"),
    "messages, effort": ("/v1/messages", body(output_config={"effort": "max"}), EFFORT),
    "messages, budget": (
        "/v1/messages",
        body(thinking={"type": "enabled", "budget_tokens": 1024}),
        EFFORT,
    ),
    "responses, effort": (
        "/v1/responses",
        {"input": "Tell a story.", "max_output_tokens": 64, "reasoning": {"effort": "xhigh"}},
        EFFORT,
    ),
    "responses, verbosity": (
        "/v1/responses",
        {"input": "Tell a story.", "max_output_tokens": 64, "text": {"verbosity": "low"}},
        VERBOSITY,
    ),
}


def said_of(words: dict[str, Any], hint: str) -> bytes:
    return json.dumps(words).replace("{}", hint).encode()


@dataclass
class Strict:
    """A server that refuses what has one of these fields, as it is told to."""

    hints: tuple[str, ...]
    status: int = 400
    words: dict[str, Any] | None = None

    def __call__(self, request: fake.Request) -> fake.Script:
        for hint in self.hints:
            if hint in request.body:
                said = said_of(self.words or {"error": UNKNOWN}, hint)
                return fake.refusal(self.status, said)
        if not request.body.get("stream"):
            return fake.plain_document(["Once"], fake.usage_document(PROMPT, OUTPUT))
        usage = fake.plain_usage(PROMPT, OUTPUT)
        return fake.stream(
            fake.plain_frame("Once"), fake.plain_frame(finish="stop"), usage, fake.DONE
        )


@dataclass
class Two:
    edge: Edge
    server: fake.FakeUpstream

    async def calls(self) -> list[SettledCall]:
        """In the order in which they were answered."""
        return list((await self.edge.settled()).values())

    def sent(self, hint: str) -> list[bool]:
        """Whether each request had it; asked once."""
        found = [hint in request.body for request in self.server.requests]
        self.server.requests.clear()
        return found

    def forget(self, passed_s: float = REFUSED_S) -> None:
        assert self.edge.watch.stands_at_s is not None
        self.edge.watch.stands_at_s += passed_s

    async def post(self, wanted: dict[str, Any], path: str = CHAT) -> Response:
        response = await self.edge.post(wanted | {"model": FAR}, path=path)
        assert response.status == 200, response.body
        assert b"error" not in response.body.replace(b'"error":null', b""), response.body
        return response


@pytest.fixture
async def two(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Two]:
    async with (
        fake.FakeUpstream(Strict((EFFORT,))) as server,
        edge(
            redis_server, redis, tmp_path, outer=server.address, outer_pool={"model": FAR}
        ) as running,
    ):
        running.watch.stop()
        yield Two(running, server)


def outcomes(call: SettledCall) -> list[tuple[str, int | None]]:
    return [(attempt.outcome, attempt.status) for attempt in call.attempts]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_call_goes_again_without_the_hint_and_the_next_leaves_it_out_at_once(
    two: Two, stream: bool
) -> None:
    for route, (path, wanted, hint) in ROUTES.items():
        two.server.behaviour = Strict((hint,))
        unread = () if stream and path == CHAT else ("stream_options",)
        asked = {name: value for name, value in wanted.items() if name not in unread}
        for _ in range(2):
            await two.post(asked | {"stream": stream}, path)
        assert two.sent(hint) == [True, False, False], route
        two.forget()
    calls = await two.calls()
    for (_, _, hint), first, second in zip(ROUTES.values(), calls[::2], calls[1::2], strict=True):
        assert_told(first, second, hint)
    assert two.edge.parts.observed.faults.counts == {("outside", "400"): len(ROUTES)}
    assert not two.edge.parts.observed.faults.last, "it is no news of the server"


def assert_told(first: SettledCall, second: SettledCall, hint: str) -> None:
    """Nothing of it is hidden, and nobody pays for it."""
    assert outcomes(first) == [("rejected", 400), ("answered", None)]
    assert outcomes(second) == [("answered", None)]
    refused, answered = first.attempts
    assert refused.detail and hint in refused.detail
    assert refused.delivered == refused.busy_us == 0
    told = f"sent without {hint}: the server refused a hint"
    assert [answered.detail, second.attempts[0].detail] == [told, told]
    priced = PROMPT * INPUT_PRICE + OUTPUT * OUTPUT_PRICE
    assert first.amount_nanousd == second.amount_nanousd == priced // 10**6


async def test_hint_is_found_in_the_words_of_every_server(two: Two) -> None:
    for server, (status, words) in REFUSALS.items():
        two.server.behaviour = Strict((EFFORT,), status, words)
        for _ in range(2):
            await two.post(body(reasoning_effort="high"))
        assert two.sent(EFFORT) == [True, False, False], server
        two.forget()


async def test_refusal_behind_the_head_of_an_answer_is_one_too(two: Two) -> None:
    error = {"error": {"message": f"{EFFORT} is not supported with this model", "code": 400}}
    two.server.scripts.append(fake.stream(fake.event(error)))
    for _ in range(2):
        await two.post(body(reasoning_effort="high"))
    assert two.sent(EFFORT) == [True, False, False]


async def test_hint_is_tried_again_after_a_time(two: Two) -> None:
    for passed_s in (0.0, REFUSED_S - 1, 2.0):
        two.forget(passed_s)
        await two.post(body(reasoning_effort="high"))
    assert two.sent(EFFORT) == [True, False, False, True, False]


async def test_value_that_one_caller_made_up_takes_nothing_from_others(two: Two) -> None:
    """The server knows the field, and not this value."""

    def no_xhigh(request: fake.Request) -> fake.Script:
        refuses = request.body.get(EFFORT) == "xhigh"
        return Strict((EFFORT,) if refuses else (), 400, {"error": VALUE})(request)

    two.server.behaviour = no_xhigh
    for effort in ("xhigh", "high", "xhigh"):
        await two.post(body(reasoning_effort=effort))
    found = [request.body.get(EFFORT) for request in two.server.requests]
    assert found == ["xhigh", None, "high", None]


async def test_hints_that_are_refused_one_by_one_are_all_left_out_in_the_end(two: Two) -> None:
    two.server.behaviour = Strict((EFFORT, VERBOSITY))
    for _ in range(3):
        await two.post(body(reasoning_effort="high", verbosity="low"))
    found = [(EFFORT in r.body, VERBOSITY in r.body) for r in two.server.requests]
    refused_once = [(True, True), (False, False)]
    assert found == [*refused_once, (False, True), (False, False), (False, False)]


OTHERS: dict[str, tuple[dict[str, Any], list[bool]]] = {
    "another field": ({"message": "'temperature' is too hot", "param": "temperature"}, [True]),
    "another field beside it": (
        {"message": f"'temperature' does not go with {EFFORT}", "param": "temperature"},
        [True],
    ),
    "no field": ({"message": "no"}, [True]),
    "a field like it": ({"message": "messages[0].reasoning_content is unknown"}, [True]),
    "it and more": ({"message": f"no {EFFORT}, and nothing else either"}, [True, False]),
}


async def test_what_is_refused_for_something_else_stays_a_400(two: Two) -> None:
    expected = [sent for _, sent in OTHERS.values() for _ in range(2)]
    for kind, (error, sent) in OTHERS.items():
        two.server.behaviour = lambda _, e=error: fake.refusal(400, e)  # type: ignore[misc]
        for _ in range(2):
            response = await two.edge.post(body(model=FAR, reasoning_effort="high", temperature=2))
            assert response.status == 400, kind
            assert response.json["error"]["message"] == error["message"]
            assert two.sent(EFFORT) == sent, f"{kind}: nothing of it is remembered"
    for call, sent in zip(await two.calls(), expected, strict=True):
        assert outcomes(call) == [("rejected", 400)] * len(sent)
        assert call.amount_nanousd == 0


async def test_without_a_hint_nothing_is_sent_again(two: Two) -> None:
    two.server.behaviour = lambda _: fake.refusal(400, {"message": f"no {EFFORT}"})
    response = await two.edge.post(body(model=FAR))
    assert (response.status, two.sent(EFFORT)) == (400, [False])
