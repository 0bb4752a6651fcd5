"""What a caller's contract allows is allowed, to the nano-dollar, and nothing beyond it."""

from __future__ import annotations

import asyncio

import openai
import pytest

from tests.journeys.calls import (
    CHAT,
    LONG_TEXT,
    SMALL,
    body,
    chunks_of,
    nano,
    rid_of,
    said,
    streamed,
)
from tests.journeys.outside import Outside, Script
from tests.stack import Stack, Tenant

PROMPT_NANO, OUTPUT_NANO = 50, 200
"""Price of one token of sluice-small at the default tier."""


def test_requests_beyond_the_rate_are_refused_with_the_time_to_wait(stack: Stack) -> None:
    limited = stack.tenant(requests_per_minute=2, request_burst=2)
    with stack.openai(limited.secret) as client:
        for _ in range(2):
            client.chat.completions.create(model=SMALL, messages=said(), max_tokens=1)
        with pytest.raises(openai.RateLimitError) as raised:
            client.chat.completions.create(model=SMALL, messages=said(), max_tokens=1)
    assert raised.value.code == "rate_limit_exceeded"
    headers = raised.value.response.headers
    assert 1 <= int(headers["retry-after"]) <= 60
    assert int(headers["retry-after-ms"]) <= 60_000
    assert headers["x-ratelimit-limit-requests"] == "2"
    assert headers["x-ratelimit-remaining-requests"] == "0"
    assert headers["x-ratelimit-reset-requests"].endswith("s")
    stack.wait_until(lambda: len(stack.requests_of(limited)) == 2, 60, "two booked calls")


def test_client_that_retries_as_told_gets_its_answer(stack: Stack) -> None:
    limited = stack.tenant(requests_per_minute=60, request_burst=1)
    with stack.openai(limited.secret, max_retries=4) as client:
        for _ in range(2):
            answer = client.chat.completions.create(model=SMALL, messages=said(), max_tokens=1)
            assert answer.usage.completion_tokens == 1


def test_tokens_beyond_the_rate_are_refused(stack: Stack) -> None:
    limited = stack.tenant(tokens_per_minute=60, token_burst=60)
    with stack.openai(limited.secret) as client:
        client.chat.completions.create(model=SMALL, messages=said(), max_tokens=20)
        with pytest.raises(openai.RateLimitError) as raised:
            for _ in range(4):
                client.chat.completions.create(model=SMALL, messages=said(), max_tokens=20)
        assert raised.value.response.headers["x-ratelimit-remaining-tokens"] == "0"
        with pytest.raises(openai.BadRequestError) as never:
            client.chat.completions.create(model=SMALL, messages=said(LONG_TEXT), max_tokens=2)
    assert never.value.code == "request_too_large_for_limit"


def test_two_keys_of_one_organization_share_its_rate(stack: Stack, tenant: Tenant) -> None:
    limits = {"requests_per_minute": 2, "request_burst": 2}
    stack.admin("PUT", f"/limits/org:{tenant.organization}", limits)
    other = stack.admin("POST", "/keys", {"project": tenant.project, "name": "other"})
    statuses = [
        stack.call("POST", CHAT, secret=secret, json=body(max_tokens=1)).status_code
        for secret in (tenant.secret, other["secret"], tenant.secret)
    ]
    assert statuses == [200, 200, 429]


def test_concurrency_is_a_number_of_calls_at_once(stack: Stack, outside: Outside) -> None:
    """One slot, taken by a stream that waits for us; free again as soon as that one ends."""
    limited = stack.tenant(concurrency=1)
    outside.begin(Script(hold_after=1))
    with stack.openai(limited.secret) as client:
        with client.chat.completions.create(
            model="outside", messages=said(), stream=True
        ) as stream:
            next(stream)
            with pytest.raises(openai.RateLimitError) as raised:
                client.chat.completions.create(model=SMALL, messages=said(), max_tokens=1)
            assert raised.value.code == "rate_limit_exceeded"
            assert int(raised.value.response.headers["retry-after"]) >= 1
            outside.release.set()
            list(stream)
        stack.wait_quiet()
        client.chat.completions.create(model=SMALL, messages=said(), max_tokens=1)


def test_g28_rate_of_a_refused_call_is_not_used(stack: Stack) -> None:
    """A call without money takes no request from the rate either: all or nothing."""
    limited = stack.tenant(budget_usd="0", requests_per_minute=1, request_burst=1)
    for _ in range(3):
        response = stack.call("POST", CHAT, secret=limited.secret, json=body())
        assert response.json()["error"]["code"] == "insufficient_quota"
    stack.admin("PUT", f"/budgets/key:{limited.key}", {"limit_usd": "1", "window": "total"})
    assert stack.call("POST", CHAT, secret=limited.secret, json=body()).status_code == 200


@pytest.mark.parametrize("kind", ["key", "project", "organization"])
def test_call_without_money_is_refused_for_good(stack: Stack, kind: str) -> None:
    poor = stack.tenant()
    scope = f"{kind.replace('organization', 'org')}:{getattr(poor, kind)}"
    stack.admin("PUT", f"/budgets/{scope}", {"limit_usd": "0.000000001", "window": "month"})
    with (
        stack.openai(poor.secret, max_retries=2) as client,
        pytest.raises(openai.RateLimitError) as raised,
    ):
        client.chat.completions.create(model=SMALL, messages=said())
    assert raised.value.code == "insufficient_quota"
    assert raised.value.type == "insufficient_quota"
    headers = raised.value.response.headers
    assert headers["x-should-retry"] == "false"
    assert "retry-after" not in headers
    assert stack.requests_of(poor) == []


def test_g21_budget_is_never_overspent_by_many_at_once(stack: Stack) -> None:
    """Law 3: spent and held together never pass the budget, whoever asks at the same time."""
    budget_nano = 8 * (20 * PROMPT_NANO + 16 * OUTPUT_NANO)
    limited = stack.tenant(budget_usd=f"0.{budget_nano:09d}")
    budget = f"key:{limited.key}"

    async def ask_all() -> list[object]:
        async with stack.async_openai(limited.secret) as client:
            asked = [
                client.chat.completions.create(model=SMALL, messages=said(), max_tokens=16)
                for _ in range(20)
            ]
            return await asyncio.gather(*asked, return_exceptions=True)

    ended = asyncio.run(ask_all()) + asyncio.run(ask_all())
    refused = [end for end in ended if isinstance(end, BaseException)]
    answered = [end for end in ended if not isinstance(end, BaseException)]
    assert answered and refused
    assert all(isinstance(e, openai.RateLimitError) for e in refused)
    assert {e.code for e in refused} == {"insufficient_quota"}
    spent_nano = sum(nano(answer.usage.cost) for answer in answered)
    assert spent_nano <= budget_nano
    stack.wait_quiet()
    [told] = [b for b in stack.admin("GET", "/budgets")["data"] if b["scope"] == budget]
    assert (nano(told["spent_usd"]), told["held_usd"]) == (spent_nano, "0.00")
    booked = stack.wait_until(
        lambda: (found := stack.requests_of(limited)) and len(found) == len(answered) and found,
        20.0,
        "every answered call in the ledger",
    )
    assert sum(nano(call["cost_usd"]) for call in booked) == spent_nano


@pytest.mark.parametrize("stream", [False, True])
def test_answer_ends_where_the_money_does(stack: Stack, stream: bool) -> None:
    """Law 3 in the middle of an answer: `length`, and a charge within what was granted."""
    budget_nano = 12 * PROMPT_NANO + 40 * OUTPUT_NANO
    for _ in range(3):
        limited = stack.tenant(budget_usd=f"0.{budget_nano:09d}")
        wanted = body(temperature=0, max_tokens=200, stream_options={"include_usage": True})
        if stream:
            found = streamed(stack, limited, wanted)
            *chunks, last = chunks_of(found)
            assert found[-1] == "[DONE]"
            assert chunks[-1]["choices"][0]["finish_reason"] == "length"
            assert chunks[-1]["sluice"] == {"stop_reason": "budget_exhausted"}
        else:
            del wanted["stream_options"]
            last = stack.call("POST", CHAT, secret=limited.secret, json=wanted).json()
            assert last["choices"][0]["finish_reason"] == "length"
        booked = stack.generation(rid_of(last["id"]))
        assert booked["cost_usd"] == last["usage"]["cost"]
        assert (booked["finish_reason"], booked["error_code"]) == ("length", "budget_exhausted")
        assert 0 < nano(booked["cost_usd"]) <= budget_nano
        assert booked["usage"]["output"] <= 40


def test_g24_a_large_max_tokens_needs_no_more_money_than_is_used(stack: Stack) -> None:
    """The hold grows with the answer: a ceiling alone costs nothing."""
    budget_nano = 12 * PROMPT_NANO + 200 * OUTPUT_NANO
    limited = stack.tenant(budget_usd=f"0.{budget_nano:09d}")
    with stack.openai(limited.secret) as client:
        answer = client.chat.completions.create(
            model=SMALL, messages=said(), max_tokens=256, temperature=0
        )
    assert answer.choices[0].finish_reason == "stop"
