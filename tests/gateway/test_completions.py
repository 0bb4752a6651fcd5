"""`/v1/completions` through the journey: one hold for every choice, exact usage, every end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from billing.money import usd
from billing.types import CallStatus
from gateway.upstream import fake
from tests.gateway.edge import CHAT, COMPLETIONS, OUTPUT_PRICE, Edge, Response, body, edge
from tests.redis_server import RedisServer

PROMPT_TOKENS = 10
"""What the fake says all prompts together have, at 1000 nano-USD each."""


def two_stories(_: fake.Request | None = None) -> fake.Script:
    return fake.stream(
        fake.own_frame(" upon", 2, index=1, tokens=[" upon"]),
        fake.own_frame(" more", 3, index=0, tokens=[" more"]),
        fake.own_frame(".", 4, index=1, finish="stop", tokens=["."]),
        fake.own_frame("!", 5, index=0, finish="length", tokens=["!"]),
        fake.DONE,
    )


@pytest.fixture
async def one(redis_server: RedisServer, redis: Redis, tmp_path: Path) -> AsyncIterator[Edge]:
    async with edge(redis_server, redis, tmp_path, behaviour=two_stories) as running:
        yield running


def wanted(**changes: Any) -> dict[str, Any]:
    return {"model": "tale", "prompt": "Once", "n": 2, "max_tokens": 8} | changes


async def test_whole_answer_has_every_choice_and_one_charge(one: Edge) -> None:
    response = await one.post(wanted(), path=COMPLETIONS)
    choices = response.json["choices"]
    assert [(c["index"], c["text"]) for c in choices] == [(0, " more!"), (1, " upon.")]
    assert [c["finish_reason"] for c in choices] == ["length", "stop"]
    assert response.json["id"].startswith("cmpl-")
    usage = response.json["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (10, 5)
    (call,) = (await one.settled()).values()
    assert call.amount_nanousd == PROMPT_TOKENS * 1000 + 5 * 5000
    assert response.headers["x-sluice-cost-usd"] == usage["cost"] == "0.000035"
    assert (call.status, call.finish_reason) == ("answered", "length")


async def test_stream_carries_each_choice_and_ends_once(one: Edge) -> None:
    streamed = wanted(stream=True, stream_options={"include_usage": True}, echo=True)
    response = await one.post(streamed, path=COMPLETIONS)
    assert response.events[-1] == "[DONE]"
    *chunks, last = response.chunks
    texts = {0: "", 1: ""}
    for chunk in chunks:
        [choice] = chunk["choices"]
        assert chunk["object"] == "text_completion"
        texts[choice["index"]] += choice["text"]
    assert texts == {0: "Once more!", 1: "Once upon."}
    assert last["usage"]["completion_tokens"] == 5
    await one.settled()


async def test_worker_is_sent_every_prompt_and_what_each_may_have(one: Edge) -> None:
    asked = wanted(prompt=["a", "b"], n=1, logprobs=2, seed=5)
    response = await one.post(asked, path=COMPLETIONS)
    assert response.json["choices"][0]["logprobs"]["tokens"] == [" more", "!"]
    (request,) = one.upstream.requests
    assert request.path == "/v1/completions"
    told = {k: request.body[k] for k in ("prompt", "n", "max_tokens", "logprobs", "seed")}
    assert told == {"prompt": ["a", "b"], "n": 1, "max_tokens": 8, "logprobs": 2, "seed": 5}
    assert request.body["sluice"]["cache_salt"] == "org_default"


async def test_hold_is_for_every_prompt_and_every_choice(one: Edge) -> None:
    """Two prompts of 9 and 10 tokens by the bound, eight tokens for each of four answers."""
    one.upstream.scripts.append(fake.Script([fake.Stall()]))
    held = []

    async def once_dispatched(_: Response) -> None:
        while not one.upstream.requests:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        (call,) = one.parts.accounts.open.values()
        held.append((call.opened.hold_nanousd, call.call.output_tokens_max))

    await one.post(wanted(prompt=["a", "bb"]), path=COMPLETIONS, leave=once_dispatched)
    ((nanousd, output_tokens),) = held
    assert output_tokens == 4 * 8
    assert 0 <= nanousd - (19 * 1000 + 32 * 5000) <= 1
    await one.settled()


async def test_log_probabilities_that_a_worker_lacks_are_its_own_400(one: Edge) -> None:
    error = {"message": "no logprobs", "code": "unsupported_parameter", "param": "logprobs"}
    one.upstream.behaviour = lambda _: fake.refusal(400, error)
    response = await one.post(wanted(logprobs=1), path=COMPLETIONS)
    assert (response.status, response.error_code) == (400, "unsupported_parameter")
    assert response.json["error"]["param"] == "logprobs"
    await one.settled()


NOT_ADMITTED: dict[str, tuple[dict[str, Any], int, str | None, str | None]] = {
    "no prompt": (wanted(prompt=None), 400, "missing_required_parameter", "prompt"),
    "an empty one": (wanted(prompt=["a", ""]), 400, "empty_string", "prompt[1]"),
    "a model that embeds": (wanted(model="vectors"), 400, "model_not_supported", "model"),
    "unknown model": (wanted(model="nope"), 404, "model_not_found", "model"),
    "unpriced model": (wanted(model="free"), 400, "model_not_priced", "model"),
    "too long": (
        wanted(prompt=["a", "b" * 4096]),
        400,
        "context_length_exceeded",
        "prompt[1]",
    ),
    "too much asked for": (wanted(max_tokens=4096), 400, "context_length_exceeded", "prompt"),
    "echo of ids without a tokenizer": (
        wanted(prompt=[5], echo=True),
        400,
        "tokenizer_not_available",
        "model",
    ),
}


@pytest.mark.parametrize("case", NOT_ADMITTED.values(), ids=NOT_ADMITTED.keys())
async def test_what_is_wrong_before_admission_takes_nothing(one: Edge, case: Any) -> None:
    wrong, status, code, param = case
    response = await one.refused(wrong, path=COMPLETIONS)
    assert (response.status, response.error_code) == (status, code)
    assert response.json["error"]["param"] == param


async def test_many_short_prompts_may_be_longer_than_the_context_together(one: Edge) -> None:
    response = await one.post(wanted(prompt=["b" * 4000] * 2, n=1), path=COMPLETIONS)
    assert response.status == 200
    await one.settled()


async def test_stream_cut_before_every_choice_has_finished_is_charged_what_came(one: Edge) -> None:
    first = fake.own_frame(" upon", 2, finish="stop")
    for ending in (fake.stream(first, fake.DONE), fake.stream(first, then=[fake.Close()])):
        one.upstream.scripts.append(ending)
        response = await one.post(wanted(stream=True), path=COMPLETIONS)
        assert response.chunks[-1]["error"]["code"] == "upstream_disconnected"
        assert "[DONE]" not in response.events
    for call in (await one.settled()).values():
        assert (call.status, call.output, call.finish_reason) == (CallStatus.FAILED, 2, None)


async def test_money_that_runs_out_ends_every_unfinished_choice(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    def endless(_: fake.Request) -> fake.Script:
        done = fake.own_frame("a", 1, finish="stop", index=1)
        rest = [fake.own_frame("a ", 7 * n, index=n % 2 * 2) for n in range(1, 200)]
        return fake.stream(done, *rest)

    budget_nanousd = 100 * OUTPUT_PRICE // 10**6
    limits = {"budget_usd": usd(budget_nanousd), "budget_window": "total"}
    async with edge(
        redis_server,
        redis,
        tmp_path,
        gateway={"output_slice_tokens": 16},
        limits=limits,
        behaviour=endless,
    ) as one:
        for path, asked in (
            (COMPLETIONS, wanted(n=3, max_tokens=600)),
            (CHAT, body(n=3, max_tokens=600, stream_options=None)),
        ):
            response = await one.post(asked | {"stream": True}, path=path)
            if response.status == 429:
                continue
            ends = {
                choice["index"]: choice["finish_reason"]
                for chunk in response.chunks
                for choice in chunk["choices"]
                if choice["finish_reason"]
            }
            assert ends == {0: "length", 1: "stop", 2: "length"}
            assert response.events[-1] == "[DONE]"
        calls = (await one.settled()).values()
        assert 0 < sum(call.amount_nanousd for call in calls) <= budget_nanousd
        assert {call.finish_reason for call in calls if call.output} == {"length"}


async def test_held_stream_is_told_where_it_stands_and_who_serves_it(
    redis_server: RedisServer, redis: Redis, tmp_path: Path
) -> None:
    soon = {"commit_after_s": 0.05, "keepalive_s": 0.05}
    async with edge(redis_server, redis, tmp_path, gateway=soon, behaviour=two_stories) as one:
        await one.publish_fleet()

        async def warm_once_told(response: Response) -> None:
            while b": waiting for pool tale-" not in response.body:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await one.publish_fleet(one.replica("late"))
            await asyncio.Event().wait()

        response = await one.post(wanted(stream=True), path=COMPLETIONS, leave=warm_once_told)
        assert response.chunks[0]["sluice"] == {"pool": "tale-reserved", "tier": "default"}
        assert response.chunks[-1]["sluice"]["cost"] == "0.000035"
        noted = [chunk for chunk in response.chunks if "sluice" in chunk]
        assert len(noted) == 2, "the first chunk and the very last one"
        await one.settled()


# --- chat has choices too ------------------------------------------------------------------------


async def test_chat_may_ask_for_several_answers_with_log_probabilities(one: Edge) -> None:
    asked = body(stream=False, stream_options=None, n=2, logprobs=True, top_logprobs=1)
    response = await one.post(asked)
    choices = response.json["choices"]
    assert [c["message"]["content"] for c in choices] == [" more!", " upon."]
    tokens = [[t["token"] for t in c["logprobs"]["content"]] for c in choices]
    assert tokens == [[" more", "!"], [" upon", "."]]
    assert choices[0]["logprobs"]["content"][0]["top_logprobs"][0]["token"] == "~ more"
    assert one.upstream.requests[0].body["n"] == 2
    await one.settled()


async def test_conversation_with_a_model_that_embeds_is_refused(one: Edge) -> None:
    response = await one.post(body(model="vectors"))
    assert (response.status, response.error_code) == (400, "model_not_supported")
    assert not await one.settled()
