"""What OpenAI's own client for Python makes of our answers: exceptions, retries, timeouts, headers,
raw and streaming responses. The same scenarios by the synchronous and the asynchronous client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2 as httpx
import openai
import pytest

from tests.journeys.calls import LARGE, MINILM, SMALL, said
from tests.stack import Stack, Tenant

Call = Callable[[openai.AsyncOpenAI], Awaitable[Any]]


class Counting(httpx.AsyncHTTPTransport):
    """How often a client has asked."""

    asked = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        return await super().handle_async_request(request)


def counting(transport: Counting) -> openai.DefaultAsyncHttpxClient:
    return openai.DefaultAsyncHttpxClient(transport=transport)


def chat(**changes: Any) -> dict[str, Any]:
    return {"model": SMALL, "messages": said(), "max_tokens": 4} | changes


RAISED: dict[str, tuple[dict[str, Any], type[openai.APIStatusError], str | None]] = {
    "a wrong value": ({"temperature": 3}, openai.BadRequestError, "invalid_value"),
    "an unknown argument": (
        {"extra_body": {"frobnicate": 1}},
        openai.BadRequestError,
        None,
    ),
    "too long a prompt": (
        {"messages": said("fox " * 3000)},
        openai.BadRequestError,
        "context_length_exceeded",
    ),
    "an unknown model": ({"model": "gpt-none"}, openai.NotFoundError, "model_not_found"),
    "a model for something else": ({"model": MINILM}, openai.BadRequestError, None),
    "too large a body": (
        {"messages": said("x" * 300_000)},
        openai.APIStatusError,
        "request_too_large",
    ),
    "a body that is no JSON": (
        {"extra_headers": {"content-type": "text/plain"}},
        openai.APIStatusError,
        "unsupported_content_type",
    ),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("change", "kind", "code"), RAISED.values(), ids=RAISED.keys())
@pytest.mark.client("openai", "Each error comes as its class, with code and request id.")
def test_error_is_of_its_class_with_code_and_request_id(
    client: openai.OpenAI,
    change: dict[str, Any],
    kind: type[openai.APIStatusError],
    code: str | None,
    stream: bool,
) -> None:
    with pytest.raises(kind) as raised:
        client.chat.completions.create(**chat(**change), stream=stream)
    assert raised.value.request_id.startswith("req_")
    assert raised.value.code == code or code is None
    assert raised.value.type == "invalid_request_error"


def test_frozen_organization_is_a_permission_error(stack: Stack, tenant: Tenant) -> None:
    path = f"/organizations/{tenant.organization}"
    stack.admin("PATCH", path, {"status": "frozen"})
    with stack.openai(tenant.secret) as client:
        with pytest.raises(openai.PermissionDeniedError) as raised:
            client.chat.completions.create(**chat())
        assert raised.value.code == "organization_frozen"
    stack.admin("PATCH", path, {"status": "active"})


async def test_money_that_is_gone_is_told_once_whatever_the_client_would_retry(
    stack: Stack,
) -> None:
    """`x-should-retry: false` is honoured: a 429 would be retried otherwise."""
    broke = stack.tenant(budget_usd="0")
    transport = Counting()
    async with stack.async_openai(
        broke.secret, max_retries=3, http_client=counting(transport)
    ) as client:
        with pytest.raises(openai.RateLimitError) as raised:
            await client.chat.completions.create(**chat())
    assert raised.value.code == "insufficient_quota"
    assert "retry-after" not in raised.value.response.headers
    assert transport.asked == 1


@pytest.mark.client("openai", "It waits as long as `retry-after` says, then tries again.")
async def test_rate_that_is_used_up_is_waited_for_as_told(stack: Stack) -> None:
    """`retry-after` is honoured: one try more is enough, since it names the very time."""
    limited = stack.tenant(requests_per_minute=30, request_burst=1)
    transport = Counting()
    async with stack.async_openai(
        limited.secret, max_retries=2, http_client=counting(transport)
    ) as client:
        for _ in range(2):
            answer = await client.chat.completions.create(**chat(max_tokens=1))
            assert answer.usage.completion_tokens == 1
    assert transport.asked == 3


async def test_client_that_gives_up_is_told_so_and_the_call_ends(
    stack: Stack, tenant: Tenant
) -> None:
    async with stack.async_openai(tenant.secret, timeout=0.05) as client:
        with pytest.raises(openai.APITimeoutError):
            await client.chat.completions.create(**chat(model=LARGE, max_tokens=250))
    await asyncio.to_thread(stack.wait_quiet)


def test_raw_response_has_the_headers_and_parses(client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(**chat())
    answer = raw.parse()
    assert raw.status_code == 200
    assert raw.request_id == raw.headers["x-request-id"]
    assert answer._request_id == raw.request_id
    assert raw.headers["x-sluice-cost-usd"] == answer.usage.cost
    assert int(raw.headers["openai-processing-ms"]) >= 0


@pytest.mark.client("openai", "It reads a stream line by line.")
async def test_streaming_response_is_read_line_by_line(stack: Stack, tenant: Tenant) -> None:
    async with (
        stack.async_openai(tenant.secret) as client,
        client.chat.completions.with_streaming_response.create(**chat(), stream=True) as response,
    ):
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        lines = [line async for line in response.iter_lines() if line]
    assert lines[-1] == "data: [DONE]"
    assert all(line.startswith("data: ") for line in lines)


@pytest.mark.client("openai", "It makes calls of every kind at the same time.")
async def test_many_calls_of_every_kind_run_beside_each_other(stack: Stack, tenant: Tenant) -> None:
    async def streamed(client: openai.AsyncOpenAI) -> str:
        stream = await client.chat.completions.create(**chat(), stream=True)
        return "".join([c.choices[0].delta.content or "" async for c in stream if c.choices])

    kinds: list[Call] = [
        lambda c: c.chat.completions.create(**chat()),
        streamed,
        lambda c: c.completions.create(model=SMALL, prompt="The fox", max_tokens=4),
        lambda c: c.embeddings.create(model=MINILM, input="a fox"),
        lambda c: c.models.retrieve(SMALL),
        lambda c: c.responses.create(model=SMALL, input="A fox", max_output_tokens=16),
    ]
    async with stack.async_openai(tenant.secret) as client:
        found = await asyncio.gather(*(kind(client) for kind in kinds for _ in range(3)))
    assert all(found)
    assert len({answer.id for answer in found[:3]}) == 3


def test_models_are_listed_page_by_page(client: openai.OpenAI) -> None:
    listed = [model.id for model in client.models.list()]
    assert {SMALL, LARGE, MINILM} <= set(listed)
    assert len(listed) == len(set(listed))


def test_what_is_not_offered_is_a_not_found_error_that_says_why(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as raised:
        client.fine_tuning.jobs.create(model=SMALL, training_file="file-1")
    assert "train" in raised.value.message
    with pytest.raises(openai.NotFoundError) as raised:
        client.images.create_variation(image=("fox.png", b"\x89PNG"))
    assert raised.value.code == "not_offered"
