"""One call from the official client to the ledger: whole, streamed, sync, async."""

from __future__ import annotations

import json

import openai
import pytest

from gateway.catalog.tokenizers import CheckpointTokens
from tests.journeys.calls import (
    LARGE,
    LONG_TEXT,
    NAP,
    SMALL,
    body,
    chunks_of,
    nano,
    rid_of,
    said,
    streamed,
)
from tests.stack import Stack, Tenant
from tests.stack_config import ROOT

PRICE_NANO = {SMALL: (50, 12.5, 200), LARGE: (250, 62.5, 1000)}
"""Per token of input, cached input and output, default tier."""


def test_whole_answer_is_what_the_client_expects(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model=SMALL, messages=said(), temperature=0)
    assert answer.id.startswith("chatcmpl-")
    assert answer.object == "chat.completion"
    assert answer.model == SMALL
    assert answer.service_tier == "default"
    [choice] = answer.choices
    assert (choice.index, choice.finish_reason, choice.message.role) == (0, "stop", "assistant")
    assert len(choice.message.content.split()) > 5
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert 0 <= answer.usage.prompt_tokens_details.cached_tokens <= answer.usage.prompt_tokens


async def test_async_client_gets_the_same(stack: Stack, tenant: Tenant) -> None:
    async with stack.async_openai(tenant.secret) as client:
        answer = await client.chat.completions.create(model=SMALL, messages=said(), temperature=0)
        parts = []
        async with await client.chat.completions.create(
            model=SMALL, messages=said(), temperature=0, stream=True
        ) as stream:
            async for chunk in stream:
                parts += [choice.delta.content or "" for choice in chunk.choices]
    assert "".join(parts) == answer.choices[0].message.content


def test_cost_is_the_same_in_header_body_and_ledger(stack: Stack, client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(model=SMALL, messages=said())
    answer = raw.parse()
    booked = stack.generation(raw.headers["x-request-id"])
    assert raw.headers["x-sluice-cost-usd"] == answer.usage.cost == booked["cost_usd"]
    [transfer] = booked["transfers"]
    assert transfer["amount_usd"] == booked["cost_usd"]
    assert booked["status"] == "answered"
    assert booked["usage_source"] == "exact"
    given, _, output = PRICE_NANO[SMALL]
    used = booked["usage"]
    assert used["cached_input"] == 0
    assert nano(booked["cost_usd"]) == given * used["input"] + output * used["output"]


def test_headers_say_who_answered_and_how_long_it_took(client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(model=SMALL, messages=said())
    headers = raw.headers
    assert rid_of(raw.parse().id) == headers["x-request-id"]
    assert int(headers["openai-processing-ms"]) >= 0
    assert headers["x-sluice-tier"] == "default"
    assert headers["x-sluice-pool"] in ("small-reserved", "small-spot")
    assert headers["x-sluice-decision"].startswith(headers["x-sluice-pool"])
    assert not [name for name in headers if name.startswith("x-ratelimit-")]


def test_rate_limit_headers_appear_where_there_are_limits(stack: Stack) -> None:
    limited = stack.tenant(
        requests_per_minute=60, request_burst=10, tokens_per_minute=60_000, token_burst=10_000
    )
    headers = stack.call("POST", "/v1/chat/completions", secret=limited.secret, json=body()).headers
    assert int(headers["x-ratelimit-limit-requests"]) >= 10
    assert 0 <= int(headers["x-ratelimit-remaining-requests"]) < 10
    assert 0 < int(headers["x-ratelimit-remaining-tokens"]) < 10_000
    for dimension in ("requests", "tokens"):
        assert headers[f"x-ratelimit-reset-{dimension}"].endswith("s")


def test_stream_has_the_shape_of_openai(stack: Stack, tenant: Tenant) -> None:
    found = streamed(stack, tenant, body(temperature=0))
    assert found[-1] == "[DONE]"
    chunks = chunks_of(found)
    assert len(chunks) == len(found) - 1, "nothing but chunks and [DONE]"
    assert len({(c["id"], c["created"], c["model"], c["object"]) for c in chunks}) == 1
    assert chunks[0]["object"] == "chat.completion.chunk"
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    for chunk in chunks:
        [choice] = chunk["choices"]
        assert choice.keys() == {"index", "delta", "logprobs", "finish_reason"}
        assert "usage" not in chunk, "who did not ask for usage is not sent it"
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert reasons == [None] * (len(chunks) - 1) + ["stop"]


def test_usage_chunk_comes_last_and_costs_what_is_booked(stack: Stack, tenant: Tenant) -> None:
    wanted = body(temperature=0, stream_options={"include_usage": True})
    found = streamed(stack, tenant, wanted)
    *chunks, last = chunks_of(found)
    assert found[-1] == "[DONE]"
    assert all(chunk["usage"] is None and len(chunk["choices"]) == 1 for chunk in chunks)
    assert last["choices"] == []
    assert last["sluice"]["pool"].startswith("small-")
    booked = stack.generation(rid_of(last["id"]))
    assert last["usage"]["cost"] == booked["cost_usd"]
    assert last["usage"]["prompt_tokens"] == booked["usage"]["input"]
    assert last["usage"]["completion_tokens"] == booked["usage"]["output"]


def test_stream_without_usage_is_metered_all_the_same(stack: Stack, tenant: Tenant) -> None:
    chunks = chunks_of(streamed(stack, tenant, body(temperature=0)))
    booked = stack.generation(rid_of(chunks[0]["id"]))
    assert booked["usage"]["output"] >= len(chunks) - 2
    assert nano(booked["cost_usd"]) > 0


def test_stream_helper_of_the_client_understands_it(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(
        model=SMALL, messages=said(), temperature=0, stream_options={"include_usage": True}
    ) as stream:
        final = stream.get_final_completion()
    assert final.usage.completion_tokens > 5
    assert final.choices[0].finish_reason == "stop"


@pytest.mark.parametrize("model", [SMALL, LARGE])
def test_greedy_answer_is_the_same_every_time(client: openai.OpenAI, model: str) -> None:
    answers = [
        client.chat.completions.create(model=model, messages=said(), temperature=0)
        for _ in range(2)
    ]
    assert len({answer.choices[0].message.content for answer in answers}) == 1
    assert answers[0].id != answers[1].id


def test_max_tokens_ends_the_answer(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=SMALL, messages=said(), temperature=0, max_tokens=5
    )
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == 5


def test_stop_sequence_ends_the_answer_before_it(client: openai.OpenAI) -> None:
    def ask(**options: object) -> tuple[str, str]:
        answer = client.chat.completions.create(
            model=SMALL, messages=said(), temperature=0, **options
        )
        [choice] = answer.choices
        return choice.message.content, choice.finish_reason

    whole, _ = ask()
    word = whole.split()[3]
    cut, reason = ask(stop=[word])
    assert reason == "stop"
    assert word not in cut
    assert cut == whole[: whole.index(word)]


def test_repeated_long_prompt_is_billed_at_the_cached_price(
    stack: Stack, client: openai.OpenAI
) -> None:
    def ask() -> tuple[int, dict]:
        raw = client.chat.completions.with_raw_response.create(
            model=LARGE, messages=said(LONG_TEXT), max_tokens=4, temperature=0
        )
        details = raw.parse().usage.prompt_tokens_details
        return details.cached_tokens, stack.generation(raw.headers["x-request-id"])

    cached_before, first = ask()
    cached, second = ask()
    assert cached_before == first["usage"]["cached_input"] == 0
    assert cached == second["usage"]["cached_input"] > 0
    given, cached_price, output = PRICE_NANO[LARGE]
    used = second["usage"]
    exact = given * used["input"] + cached_price * cached + output * used["output"]
    assert abs(nano(second["cost_usd"]) - exact) <= 0.5
    assert nano(second["cost_usd"]) < nano(first["cost_usd"])


def test_one_tenants_prompt_is_not_in_anothers_cache(stack: Stack) -> None:
    text = "Nobody else may know of this. " * 12
    for tenant in (stack.tenant(), stack.tenant()):
        with stack.openai(tenant.secret) as client:
            answer = client.chat.completions.create(model=LARGE, messages=said(text), max_tokens=1)
        assert answer.usage.prompt_tokens_details.cached_tokens == 0


def test_models_are_listed_with_prices(stack: Stack, client: openai.OpenAI) -> None:
    listed = {model.id: model for model in client.models.list()}
    assert {SMALL, LARGE, NAP} <= listed.keys()
    assert all(model.object == "model" for model in listed.values())
    pricing = stack.call("GET", f"/v1/models/{SMALL}").json()["pricing"]
    assert pricing["default"]["output"] == "0.20"
    assert client.models.retrieve(LARGE).id == LARGE
    with pytest.raises(openai.NotFoundError) as missing:
        client.models.retrieve("nobody")
    assert missing.value.code == "model_not_found"


def test_many_callers_at_once_each_get_their_own_answer(stack: Stack, tenant: Tenant) -> None:
    import asyncio

    async def ask_all() -> list[tuple[str, str]]:
        async with stack.async_openai(tenant.secret) as client:
            names = ("fox", "bear", "owl", "hedgehog", "goat", "cat", "dog", "hen")
            asked = [
                client.chat.completions.create(
                    model=SMALL, messages=said(f"Tell me a story about a {name}."), temperature=0
                )
                for name in names
            ]
            return [(a.id, a.choices[0].message.content) for a in await asyncio.gather(*asked)]

    together = asyncio.run(ask_all())
    assert len({answer_id for answer_id, _ in together}) == 8
    assert len({text for _, text in together}) > 4
    stack.wait_until(lambda: len(stack.requests_of(tenant)) == 8, 60, "eight calls in the ledger")


def test_neutral_values_of_what_the_engine_does_not_take_pass(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=SMALL,
        messages=[
            {"role": "developer", "content": "Be kind."},
            {"role": "user", "content": [{"type": "text", "text": "Tell me a story."}]},
        ],
        n=1,
        presence_penalty=0,
        response_format={"type": "text"},
        user="somebody",
        metadata={"purpose": "test"},
        max_completion_tokens=4,
        seed=7,
        top_p=0.9,
    )
    assert answer.usage.completion_tokens <= 4
    assert json.loads(answer.model_dump_json())["service_tier"] == "default"


@pytest.mark.parametrize(
    "text", ["Erzähl mir von Füchsen.", "讲一个狐狸的故事。", "🦊🐻" * 5, "\x00\x01"]
)
def test_prompt_in_any_script_is_counted_as_the_worker_counts_it(
    stack: Stack, tenant: Tenant, text: str
) -> None:
    """The hold of the prompt is exact: what the gateway counts is what the worker computes."""
    wanted = body(text=text, max_tokens=3, stream_options={"include_usage": True})
    usage = chunks_of(streamed(stack, tenant, wanted))[-1]["usage"]
    counted = CheckpointTokens(ROOT / "models" / SMALL).count(said(text))
    assert usage["prompt_tokens"] == counted
