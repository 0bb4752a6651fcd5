"""`/v1/responses` by the official client, from a call to the ledger: whole, parsed and streamed."""

from __future__ import annotations

import json
from typing import Any, Literal

import httpx2 as httpx
import openai
import pytest
from pydantic import BaseModel

from gateway.catalog.tokenizers import CheckpointTokens
from tests.journeys.calls import LARGE, NAP, SMALL, events, nano, said
from tests.journeys.outside import Outside, Script
from tests.openai_api.valid import assert_events
from tests.stack import Stack, Tenant
from tests.stack_config import ROOT

RESPONSES = "/v1/responses"
QUESTION = "Tell me a story about a fox."
WEATHER: Any = {
    "type": "function",
    "name": "weather",
    "description": "The weather of a town.",
    "parameters": {
        "type": "object",
        "properties": {"town": {"enum": ["Ulm", "Bonn"]}},
        "required": ["town"],
        "additionalProperties": False,
    },
    "strict": True,
}


def test_whole_answer_is_what_chat_would_have_said(stack: Stack, client: openai.OpenAI) -> None:
    raw = client.responses.with_raw_response.create(model=SMALL, input=QUESTION, temperature=0)
    answer = raw.parse()
    chat = client.chat.completions.create(model=SMALL, messages=said(QUESTION), temperature=0)
    assert answer.output_text == chat.choices[0].message.content
    assert (answer.status, answer.store, answer.model) == ("completed", False, SMALL)
    assert answer.usage.input_tokens == chat.usage.prompt_tokens
    assert answer.usage.output_tokens == chat.usage.completion_tokens
    booked = stack.generation(raw.headers["x-request-id"])
    assert answer.usage.cost == booked["cost_usd"] == raw.headers["x-sluice-cost-usd"]
    assert nano(booked["cost_usd"]) > 0


@pytest.mark.client("openai", "It counts the input tokens of a response.")
def test_count_of_an_input_is_what_its_response_is_charged_for(
    stack: Stack, tenant: Tenant, client: openai.OpenAI
) -> None:
    asked: dict[str, Any] = {"model": SMALL, "input": QUESTION, "instructions": "Be kind."}
    asked |= {"tools": [WEATHER]}
    counted = client.responses.input_tokens.count(**asked)
    assert counted.object == "response.input_tokens"
    assert stack.requests_of(tenant) == []
    usage = client.responses.create(**asked, max_output_tokens=1).usage
    assert counted.input_tokens == usage.input_tokens > 20


def test_stream_of_the_official_client_adds_up(stack: Stack, client: openai.OpenAI) -> None:
    options = {"model": SMALL, "input": QUESTION, "temperature": 0}
    whole = client.responses.create(**options)
    with client.responses.stream(**options) as stream:
        seen = list(stream)
        final = stream.get_final_response()
    text = "".join(e.delta for e in seen if e.type == "response.output_text.delta")
    assert text == final.output_text == whole.output_text
    assert (final.status, final.usage.output_tokens) == (whole.status, whole.usage.output_tokens)
    assert [event.sequence_number for event in seen if hasattr(event, "sequence_number")]
    booked = stack.generation(f"req_{final.id.removeprefix('resp_')}")
    assert booked["cost_usd"] == final.usage.cost
    assert booked["status"] == "answered"


async def test_async_client_gets_the_same(stack: Stack, tenant: Tenant) -> None:
    async with stack.async_openai(tenant.secret) as client:
        parts = []
        stream = await client.responses.create(
            model=SMALL, input=QUESTION, max_output_tokens=8, stream=True
        )
        async for event in stream:
            if event.type == "response.output_text.delta":
                parts.append(event.delta)
        assert event.type == "response.incomplete"
    assert "".join(parts) == event.response.output_text
    assert event.response.incomplete_details.reason == "max_output_tokens"


def test_every_event_is_one_that_the_document_knows(stack: Stack, tenant: Tenant) -> None:
    wanted = {"model": SMALL, "input": QUESTION, "max_output_tokens": 8, "stream": True}
    with httpx.stream(
        "POST",
        f"{stack.base_url}{RESPONSES}",
        headers={"authorization": f"Bearer {tenant.secret}"},
        json=wanted,
        timeout=60.0,
    ) as response:
        lines = list(response.iter_lines())
    payloads = [e for e in events(iter(lines)) if e.startswith("{")]
    assert_events(RESPONSES, payloads)
    names = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    assert names == [json.loads(payload)["type"] for payload in payloads]


def test_instructions_and_earlier_turns_count_as_chat_counts_them(client: openai.OpenAI) -> None:
    first = client.responses.create(
        model=SMALL, instructions="Be brief.", input=QUESTION, max_output_tokens=8
    )
    turns: Any = [{"role": "user", "content": QUESTION}, *first.output]
    turns.append({"role": "user", "content": [{"type": "input_text", "text": "Go on."}]})
    second = client.responses.create(
        model=SMALL, instructions="Be brief.", input=turns, max_output_tokens=4
    )
    messages = [
        {"role": "system", "content": "Be brief."},
        *said(QUESTION),
        {"role": "assistant", "content": first.output_text},
        *said("Go on."),
    ]
    counted = CheckpointTokens(ROOT / "models" / SMALL).count(messages)
    assert second.usage.input_tokens == counted


class Weather(BaseModel):
    town: Literal["Ulm", "Bonn"]
    is_wet: bool


@pytest.mark.parametrize("model", [SMALL, LARGE])
def test_answer_is_parsed_into_a_model_of_pydantic(client: openai.OpenAI, model: str) -> None:
    answer = client.responses.parse(model=model, input=QUESTION, text_format=Weather)
    assert isinstance(answer.output_parsed, Weather)


def test_tool_is_called_answered_and_talked_about(stack: Stack, client: openai.OpenAI) -> None:
    choice: Any = {"type": "function", "name": "weather"}
    turns: Any = [{"role": "user", "content": "Is it raining?"}]
    first = client.responses.create(
        model=SMALL, input=turns, tools=[WEATHER], tool_choice=choice, parallel_tool_calls=False
    )
    [call] = first.output
    assert (call.type, call.name, first.status) == ("function_call", "weather", "completed")
    assert json.loads(call.arguments)["town"] in ("Ulm", "Bonn")
    turns += [call, {"type": "function_call_output", "call_id": call.call_id, "output": "Rain."}]
    second = client.responses.create(
        model=SMALL, input=turns, tools=[WEATHER], tool_choice="none", max_output_tokens=8
    )
    assert second.output[0].type == "message"


def test_call_of_a_tool_is_streamed_in_pieces(client: openai.OpenAI) -> None:
    options: Any = {"input": "Is it raining?", "tools": [WEATHER], "tool_choice": "required"}
    with client.responses.stream(model=SMALL, parallel_tool_calls=False, **options) as stream:
        seen = list(stream)
        final = stream.get_final_response()
    [call] = final.output
    told = [e.delta for e in seen if e.type == "response.function_call_arguments.delta"]
    assert "".join(told) == call.arguments
    assert json.loads(call.arguments)["town"] in ("Ulm", "Bonn")


def test_log_probabilities_come_where_they_are_included(client: openai.OpenAI) -> None:
    answer = client.responses.create(
        model=SMALL,
        input=QUESTION,
        max_output_tokens=4,
        include=["message.output_text.logprobs"],
        top_logprobs=2,
    )
    scores = answer.output[0].content[0].logprobs
    assert len(scores) == 4
    assert all(len(score.top_logprobs) == 2 for score in scores)


@pytest.mark.parametrize(
    ("options", "kind", "param"),
    [
        ({"store": True}, openai.BadRequestError, "store"),
        ({"background": True}, openai.BadRequestError, "background"),
        ({"previous_response_id": "resp_1"}, openai.BadRequestError, "previous_response_id"),
        ({"tools": [{"type": "web_search"}]}, openai.BadRequestError, "tools[0].type"),
        ({"input": "fox " * 2000}, openai.BadRequestError, "input"),
        ({"model": "nobody"}, openai.NotFoundError, "model"),
    ],
)
def test_refusals_are_the_clients_errors(
    stack: Stack, client: openai.OpenAI, options: Any, kind: type[openai.APIStatusError], param: str
) -> None:
    with pytest.raises(kind) as caught:
        client.responses.create(**{"model": SMALL, "input": QUESTION} | options)
    assert caught.value.body["param"] == param


def test_client_reads_a_stream_that_waited_for_a_cold_pool(
    stack: Stack, client: openai.OpenAI
) -> None:
    stack.wait_until(lambda: not stack.replicas("nap"), 60, "the pool to go to zero")
    with stack.paused("controller"):  # no replica comes before the stream has begun
        stream = client.responses.create(
            model=NAP, input=QUESTION, max_output_tokens=8, stream=True
        )
    with stream:
        assert "x-sluice-pool" not in stream.response.headers
        seen = list(stream)
    assert (seen[0].type, seen[-1].type) == ("response.created", "response.incomplete")
    assert seen[-1].sluice["pool"] == "nap"


def test_kept_responses_are_not_found_and_say_why(client: openai.OpenAI) -> None:
    for ask in (client.responses.retrieve, client.responses.cancel, client.responses.delete):
        with pytest.raises(openai.NotFoundError, match="not kept here"):
            ask("resp_1")


def test_server_outside_is_asked_in_chat_and_answers_in_items(
    stack: Stack, client: openai.OpenAI, outside: Outside
) -> None:
    outside.begin(Script())
    with client.responses.stream(model="outside", input=QUESTION) as stream:
        list(stream)
        final = stream.get_final_response()
    assert final.output_text
    booked = stack.generation(f"req_{final.id.removeprefix('resp_')}")
    assert booked["usage"]["output"] == final.usage.output_tokens
