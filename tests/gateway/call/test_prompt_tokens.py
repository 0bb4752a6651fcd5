"""What is counted before anything is taken for it: bounded in how often and in how much at once."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from billing.limits.types import ScopeLimits
from gateway.call.prompt_tokens import (
    AT_ONCE,
    AT_ONCE_EACH,
    LARGE_BYTES,
    WAITING_MAX_EACH,
    PromptCounter,
)
from gateway.catalog.bootstrap import KEY_ID
from gateway.errors import ApiError
from gateway.tenants.auth import Principal
from tests.gateway.api.asgi import ask
from tests.gateway.edge import API_KEY, CHAT, Edge, body
from tests.gateway.limits.test_limits import limit, one

__all__ = ["one"]

KEY = f"key:{KEY_ID}"
FREE: dict[str, dict[str, Any]] = {
    "/v1/quote": {"url": CHAT, "body": body()},
    "/v1/tokenize": {"model": "tale", "prompt": "a"},
    "/v1/detokenize": {"model": "tale", "tokens": [1]},
    "/v1/responses/input_tokens": {"model": "tale", "input": "a"},
    "/v1/messages/count_tokens": {
        "model": "tale",
        "messages": [{"role": "user", "content": "a"}],
    },
}


def caller(organization: str = "o", *scopes: ScopeLimits) -> Principal:
    return Principal(organization, "p", "k", scopes)


@given(
    st.lists(st.floats(0, 30), max_size=60),
    st.integers(1, 20),
    st.integers(1, 20),
    st.integers(1, 20),
)
@settings(deadline=None)
async def test_no_more_free_calls_than_any_of_their_limits_admits(
    pauses_s: list[float], of_key: int, of_organization: int, of_all: int
) -> None:
    now_s, made = 1e6, 0
    counting = PromptCounter(of_all, lambda: now_s)
    limits = (
        ScopeLimits(scope="key:k", requests_per_minute=of_key),
        ScopeLimits(scope="org:o", requests_per_minute=of_organization),
    )
    for pause_s in pauses_s:
        now_s += pause_s
        try:
            made += await counting.free(caller("o", *limits), 0, lambda: 1)
        except ApiError as refused:
            assert (refused.status, refused.code) == (429, "rate_limit_exceeded")
            assert refused.retry_after_s
    rate = min(of_key, of_organization, of_all)
    assert made <= rate * (1 + (now_s - 1e6) / 60) + 1e-6
    assert made or not pauses_s


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=40), st.sets(st.integers(0, 39)))
@settings(deadline=None, max_examples=30)
async def test_large_texts_are_counted_a_few_at_a_time_whoever_leaves(
    organizations: list[str], leave: set[int]
) -> None:
    counting, lock = PromptCounter(10**6, lambda: 0.0), threading.Lock()
    running: list[str] = []
    most: dict[str, int] = {}
    go_on = threading.Event()

    def work(organization: str) -> str:
        with lock:
            running.append(organization)
            most["all"] = max(most.get("all", 0), len(running))
            most[organization] = max(most.get(organization, 0), running.count(organization))
        go_on.wait(30)
        with lock:
            running.remove(organization)
        return organization

    async def count(organization: str) -> str:
        return await counting.large(caller(organization), work, organization)

    tasks = [asyncio.ensure_future(count(organization)) for organization in organizations]
    await asyncio.sleep(0)
    for number, task in enumerate(tasks):
        if number in leave:
            task.cancel()
    await asyncio.sleep(0)
    go_on.set()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    for number, (answer, organization) in enumerate(zip(answers, organizations, strict=True)):
        assert answer == organization or number in leave
    async with asyncio.timeout(30):
        while counting._present:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert most.pop("all", 0) <= AT_ONCE
    assert all(count <= AT_ONCE_EACH for count in most.values())
    assert not counting._organizations
    assert counting._places._value == AT_ONCE


async def test_large_texts_that_wait_are_bounded() -> None:
    counting, go_on = PromptCounter(10**6, lambda: 0.0), threading.Event()
    waiting = [
        asyncio.ensure_future(counting.large(caller(), go_on.wait, 30))
        for _ in range(WAITING_MAX_EACH)
    ]
    await asyncio.sleep(0)
    with pytest.raises(ApiError, match="wait to be counted"):
        await counting.large(caller(), go_on.wait, 30)
    go_on.set()
    await asyncio.gather(*waiting)


async def test_free_calls_are_limited_as_the_key_is_and_take_nothing_of_its_calls(
    one: Edge,
) -> None:
    """A caller could have anything quoted and counted for nothing, as often as it liked."""
    await limit(one, KEY, requests_per_minute=2)
    sent = {path: (await _free(one, path), await _free(one, path)) for path in FREE}
    statuses = [status for pair in sent.values() for status in pair]
    assert statuses[:2] == [200, 200]
    assert set(statuses[2:]) == {429}
    assert [(await one.post(body())).status for _ in range(3)] == [200, 200, 429]


async def _free(one: Edge, path: str) -> int:
    raw = json.dumps(FREE[path]).encode()
    return (await ask(one.app, "POST", path, raw, API_KEY))[0]


async def test_large_prompt_beyond_the_rate_is_refused_before_it_is_counted(
    one: Edge, monkeypatch: pytest.MonkeyPatch
) -> None:
    await limit(one, KEY, requests_per_minute=1)
    shaped, shape = 0, one.parts.pipeline.shape

    def counted(*args: Any) -> Any:
        nonlocal shaped
        shaped += 1
        return shape(*args)

    monkeypatch.setattr(one.parts.pipeline, "shape", counted)
    large = body(messages=[{"role": "user", "content": "a" * LARGE_BYTES}])
    answers = [await one.post(large) for _ in range(5)]
    assert [answer.status for answer in answers[1:]] == [429] * 4
    assert "retry-after" in answers[-1].headers
    assert shaped == 1
