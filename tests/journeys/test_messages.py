"""`/v1/messages` by Anthropic's official client, from a call to the ledger: whole, streamed, with
tools, counted and refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import anthropic
import pytest

from tests.journeys.calls import LARGE, LONG_TEXT, NAP, SMALL, nano, said
from tests.journeys.outside import Outside, Script
from tests.stack import Stack, Tenant

QUESTION = "Tell me a story about a fox."
COLD: Any = {"extra_body": {"temperature": 0}}
"""The official client does not know temperatures any more; the API takes them."""
PROMPT: Any = {"model": SMALL, "messages": [{"role": "user", "content": QUESTION}]}
WEATHER: Any = {
    "name": "weather",
    "description": "The weather of a town.",
    "input_schema": {
        "type": "object",
        "properties": {"town": {"enum": ["Ulm", "Bonn"]}},
        "required": ["town"],
        "additionalProperties": False,
    },
}
ALONE: Any = {"type": "any", "disable_parallel_tool_use": True}


def opened(stack: Stack, secret: str, **options: Any) -> anthropic.Anthropic:
    defaults: Any = {"max_retries": 0, "timeout": 60.0, "base_url": stack.base_url}
    return anthropic.Anthropic(**{"api_key": secret} | defaults | options)


@pytest.fixture
def claude(stack: Stack, tenant: Tenant) -> Iterator[anthropic.Anthropic]:
    with opened(stack, tenant.secret) as client:
        yield client


def test_whole_answer_is_what_chat_would_have_said(
    stack: Stack, tenant: Tenant, claude: anthropic.Anthropic
) -> None:
    raw = claude.messages.with_raw_response.create(**PROMPT, max_tokens=64, **COLD)
    answer = raw.parse()
    with stack.openai(tenant.secret) as client:
        chat = client.chat.completions.create(
            model=SMALL, messages=said(QUESTION), temperature=0, max_tokens=64
        )
    [block] = answer.content
    assert block.text == chat.choices[0].message.content
    assert answer.id == f"msg_{raw.headers['request-id'].removeprefix('req_')}"
    assert raw.headers["request-id"] == raw.headers["x-request-id"]
    assert answer.usage.input_tokens == chat.usage.prompt_tokens
    assert answer.usage.output_tokens == chat.usage.completion_tokens
    assert (
        answer.stop_reason
        == {"stop": "end_turn", "length": "max_tokens"}[chat.choices[0].finish_reason]
    )
    booked = stack.generation(raw.headers["request-id"])
    assert answer.usage.cost == booked["cost_usd"] == raw.headers["x-sluice-cost-usd"]
    assert nano(booked["cost_usd"]) > 0


def test_stream_of_the_official_client_adds_up(stack: Stack, claude: anthropic.Anthropic) -> None:
    options = PROMPT | COLD | {"max_tokens": 24}
    whole = claude.messages.create(**options)
    with claude.messages.stream(**options) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == final.content[0].text == whole.content[0].text
    assert (final.stop_reason, final.usage.output_tokens) == ("max_tokens", 24)
    assert final.usage.input_tokens == whole.usage.input_tokens
    booked = stack.generation(f"req_{final.id.removeprefix('msg_')}")
    assert (booked["status"], booked["usage"]["output"]) == ("answered", 24)


async def test_async_client_streams_too(stack: Stack, tenant: Tenant) -> None:
    async with (
        anthropic.AsyncAnthropic(
            auth_token=tenant.secret, api_key=None, base_url=stack.base_url, max_retries=0
        ) as client,
        client.messages.stream(**PROMPT, max_tokens=8) as stream,
    ):
        text = "".join([piece async for piece in stream.text_stream])
        final = await stream.get_final_message()
    assert text == final.content[0].text


def test_what_the_cache_had_is_told_apart(stack: Stack, claude: anthropic.Anthropic) -> None:
    hinted: Any = [{"type": "text", "text": LONG_TEXT, "cache_control": {"type": "ephemeral"}}]
    options: Any = {"model": LARGE, "max_tokens": 2, "system": hinted, "messages": said("Go on.")}
    first, second = (claude.messages.create(**options).usage for _ in range(2))
    assert first.cache_read_input_tokens == 0
    assert second.cache_read_input_tokens > 0
    total = first.input_tokens
    assert second.input_tokens + second.cache_read_input_tokens == total
    assert first.cache_creation_input_tokens == second.cache_creation_input_tokens == 0


def test_stop_sequence_is_named(claude: anthropic.Anthropic) -> None:
    whole = claude.messages.create(**PROMPT, **COLD, max_tokens=48).content[0].text
    word = whole.split()[3]
    options = PROMPT | COLD | {"max_tokens": 48, "stop_sequences": ["zzzz", word]}
    with claude.messages.stream(**options) as stream:
        streamed = stream.get_final_message()
    for answer in (claude.messages.create(**options), streamed):
        assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", word)
        assert answer.content[0].text == whole[: whole.index(word)]


@pytest.mark.parametrize("model", [SMALL, LARGE])
@pytest.mark.client("anthropic", "It uses a tool and goes on with its result.")
def test_tool_is_used_and_its_result_talked_about(claude: anthropic.Anthropic, model: str) -> None:
    turns: Any = [{"role": "user", "content": "Is it raining?"}]
    options: Any = {"model": model, "tools": [WEATHER], "max_tokens": 64}
    first = claude.messages.create(messages=turns, tool_choice=ALONE, **options)
    [use] = first.content
    assert (use.type, use.name, first.stop_reason) == ("tool_use", "weather", "tool_use")
    assert use.input["town"] in ("Ulm", "Bonn")
    result = {"type": "tool_result", "tool_use_id": use.id, "content": "Rain."}
    turns += [
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": [result]},
    ]
    second = claude.messages.create(messages=turns, tool_choice={"type": "none"}, **options)
    assert second.content[0].type == "text"


def test_use_of_a_tool_is_streamed_in_pieces(claude: anthropic.Anthropic) -> None:
    options = PROMPT | {"tools": [WEATHER], "tool_choice": ALONE, "max_tokens": 64}
    with claude.messages.stream(**options) as stream:
        pieces = [e.partial_json for e in stream if e.type == "input_json"]
        final = stream.get_final_message()
    [use] = final.content
    assert pieces and use.input["town"] in ("Ulm", "Bonn")
    assert final.stop_reason == "tool_use"


COUNTED: dict[str, Any] = {
    "plain": {},
    "a system": {"system": "Be kind."},
    "tools": {"tools": [WEATHER]},
    "tools that may not be used": {"tools": [WEATHER], "tool_choice": {"type": "none"}},
    "what was said before": {
        "messages": [
            {"role": "user", "content": "Is it raining?"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "t1", "name": "weather", "input": {}}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "Rain."}],
            },
        ],
        "tools": [WEATHER],
    },
}


@pytest.mark.parametrize("name", COUNTED)
@pytest.mark.client("anthropic", "It counts the tokens of a message.")
def test_count_is_what_the_call_is_charged_for(
    stack: Stack, tenant: Tenant, claude: anthropic.Anthropic, name: str
) -> None:
    asked = PROMPT | COUNTED[name]
    counted = claude.messages.count_tokens(**asked).input_tokens
    assert stack.requests_of(tenant) == []
    usage = claude.messages.create(**asked, max_tokens=1).usage
    assert counted == usage.input_tokens + usage.cache_read_input_tokens


REFUSED: dict[str, tuple[dict[str, Any], type[anthropic.APIStatusError], str]] = {
    "a bound of none": ({"max_tokens": 0}, anthropic.BadRequestError, "invalid_request_error"),
    "top_k": ({"extra_body": {"top_k": 4}}, anthropic.BadRequestError, "invalid_request_error"),
    "too long": ({"system": LONG_TEXT * 9}, anthropic.BadRequestError, "invalid_request_error"),
    "no model": ({"model": "nobody"}, anthropic.NotFoundError, "not_found_error"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_are_the_clients_errors(claude: anthropic.Anthropic, name: str) -> None:
    options, kind, word = REFUSED[name]
    with pytest.raises(kind) as caught:
        claude.messages.create(**PROMPT | {"max_tokens": 8} | options)
    assert caught.value.body["error"]["type"] == word
    assert caught.value.request_id == caught.value.body["request_id"]


def test_wrong_key_and_too_large_a_body_are_the_clients_errors(
    stack: Stack, claude: anthropic.Anthropic
) -> None:
    with opened(stack, "sk-nobody") as stranger, pytest.raises(anthropic.AuthenticationError):
        stranger.messages.create(**PROMPT, max_tokens=8)
    with pytest.raises(anthropic.RequestTooLargeError) as caught:
        claude.messages.create(**PROMPT, max_tokens=8, system="x" * 300_000)
    assert caught.value.body["error"]["type"] == "request_too_large"


def test_limits_are_told_in_anthropics_headers(stack: Stack) -> None:
    limited = stack.tenant(requests_per_minute=1, request_burst=1, tokens_per_minute=60_000)
    with opened(stack, limited.secret) as client:
        told = client.messages.with_raw_response.create(**PROMPT, max_tokens=4).headers
        with pytest.raises(anthropic.RateLimitError) as caught:
            client.messages.create(**PROMPT, max_tokens=4)
    assert told["anthropic-ratelimit-requests-limit"] == "1"
    assert int(told["anthropic-ratelimit-tokens-remaining"]) > 0
    assert re.fullmatch(r"[\d-]{10}T[\d:]{8}Z", told["anthropic-ratelimit-tokens-reset"])
    assert caught.value.body["error"]["type"] == "rate_limit_error"
    assert int(caught.value.response.headers["retry-after"]) > 0


def test_client_reads_a_stream_that_waited_for_a_cold_pool(
    stack: Stack, tenant: Tenant, claude: anthropic.Anthropic
) -> None:
    """Its headers had left before a worker was there, and pings kept it alive."""
    stack.wait_until(lambda: not stack.replicas("nap"), 60, "the pool to go to zero")
    with ExitStack() as reading:
        with stack.paused("controller"):  # no replica comes before the stream has begun
            stream = reading.enter_context(
                claude.messages.stream(**PROMPT | {"model": NAP, "max_tokens": 8})
            )
        final = stream.get_final_message()
        assert "x-sluice-pool" not in stream.response.headers
    assert final.content[0].text
    booked = stack.generation(f"req_{final.id.removeprefix('msg_')}")
    assert (booked["status"], booked["pool"]) == ("answered", "nap")


@pytest.mark.client("anthropic", "It lists the models.")
def test_models_are_listed(claude: anthropic.Anthropic) -> None:
    assert {SMALL, LARGE} <= {model.id for model in claude.models.list()}
    assert claude.models.retrieve(SMALL).max_tokens == 256


def test_stream_that_is_cut_outside_is_the_clients_error(
    stack: Stack, claude: anthropic.Anthropic, outside: Outside
) -> None:
    outside.begin(Script(cut_after=2))
    options = PROMPT | {"model": "outside", "max_tokens": 16}
    with (
        pytest.raises(anthropic.APIStatusError, match="lost"),
        claude.messages.stream(**options) as stream,
    ):
        list(stream)
    assert stream.current_message_snapshot.stop_reason is None
