"""Calls of tools, from the official client to a worker and to a server outside: forced, chosen
freely, streamed, answered and charged."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Literal

import anthropic
import jsonschema
import openai
import pytest
from pydantic import BaseModel

from tests.journeys.calls import LARGE, SMALL, said
from tests.journeys.outside import Outside, Script
from tests.stack import Stack, Tenant

WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a town.",
        "parameters": {
            "type": "object",
            "properties": {
                "town": {"enum": ["Ulm", "Bonn", "Kiel"]},
                "days": {"type": "integer", "minimum": 1, "maximum": 14},
            },
            "required": ["town", "days"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}
TIME: dict[str, Any] = {"type": "function", "function": {"name": "time"}}
NAMED: Any = {"type": "function", "function": {"name": "weather"}}


def asked(**fields: Any) -> dict[str, Any]:
    return {"model": SMALL, "messages": said(), "tools": [WEATHER, TIME]} | fields


def check(call: Any) -> None:
    parameters = {"weather": WEATHER["function"]["parameters"], "time": {"maxProperties": 0}}
    jsonschema.validate(json.loads(call.function.arguments), parameters[call.function.name])


@pytest.mark.parametrize("model", [SMALL, LARGE])
def test_a_named_tool_is_called_once_with_valid_arguments(
    stack: Stack, client: openai.OpenAI, model: str
) -> None:
    raw = client.chat.completions.with_raw_response.create(
        **asked(model=model, tool_choice=NAMED, temperature=1.5, seed=7)
    )
    answer = raw.parse()
    [choice] = answer.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    [call] = choice.message.tool_calls
    assert call.function.name == "weather"
    assert call.id.startswith("call_")
    check(call)
    booked = stack.generation(raw.headers["x-request-id"])
    assert booked["usage"]["output"] == answer.usage.completion_tokens > 10
    assert booked["finish_reason"] == "tool_calls"


def test_required_calls_are_all_valid(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        **asked(tool_choice="required", parallel_tool_calls=False, n=6, temperature=2, seed=1)
    )
    for choice in answer.choices:
        assert choice.finish_reason == "tool_calls"
        [call] = choice.message.tool_calls
        check(call)
    ids = [choice.message.tool_calls[0].id for choice in answer.choices]
    assert len(set(ids)) == 6


CHOICES: list[dict[str, Any]] = [
    {"tool_choice": NAMED},
    {"tool_choice": "required", "parallel_tool_calls": False},
    {"tool_choice": "required", "parallel_tool_calls": True, "max_tokens": 120},
    {"parallel_tool_calls": True, "max_tokens": 60},
]


@pytest.mark.client("openai", "Its stream helper puts tool calls together, one or several.")
@pytest.mark.parametrize("fields", CHOICES, ids=["named", "one", "several", "auto"])
def test_the_stream_helper_puts_calls_together(
    client: openai.OpenAI, fields: dict[str, Any]
) -> None:
    """One call where one is asked for; whatever was called, its pieces are its arguments."""
    for seed in range(4):
        told: dict[int, str] = {}
        with client.chat.completions.stream(**asked(seed=seed, **fields)) as stream:
            with suppress(openai.LengthFinishReasonError):  # so it says that an answer was cut
                for event in stream:
                    if event.type == "tool_calls.function.arguments.delta":
                        told[event.index] = told.get(event.index, "") + event.arguments_delta
            [choice] = stream.current_completion_snapshot.choices
        calls = choice.message.tool_calls or []
        if "max_tokens" not in fields:
            assert (len(calls), choice.finish_reason) == (1, "tool_calls")
        assert [told.get(n, "") for n in range(len(calls))] == [
            call.function.arguments for call in calls
        ]
        for call in calls if choice.finish_reason == "tool_calls" else calls[:-1]:
            check(call)


def test_a_call_that_uses_up_its_tokens_is_no_shorter_answer(client: openai.OpenAI) -> None:
    """At the close of the call, and where its arguments are whole and only its mark is not."""
    for fields in CHOICES[:2]:
        wanted = asked(seed=5, temperature=0.5, **fields)
        whole = client.chat.completions.create(**wanted)
        [call] = whole.choices[0].message.tool_calls
        used = whole.usage.completion_tokens
        for tokens_max, finish in ((used, "tool_calls"), (used - 1, "tool_calls"), (8, "length")):
            answer = client.chat.completions.create(**wanted, max_tokens=tokens_max)
            assert answer.choices[0].finish_reason == finish, tokens_max
            if finish == "tool_calls":
                [again] = answer.choices[0].message.tool_calls
                assert again.function == call.function
                assert answer.usage.completion_tokens == tokens_max


def test_a_call_that_uses_up_its_tokens_is_whole_by_the_other_routes_too(
    stack: Stack, tenant: Tenant, client: openai.OpenAI
) -> None:
    flat = {"type": "function", **WEATHER["function"]}
    wanted: dict[str, Any] = {
        "model": SMALL,
        "input": said(),
        "tools": [flat],
        "tool_choice": {"type": "function", "name": "weather"},
        "temperature": 0,
    }
    whole = client.responses.create(**wanted)
    tokens_max = whole.usage.output_tokens
    with client.responses.stream(**wanted, max_output_tokens=tokens_max) as stream:
        deltas = [e.delta for e in stream if e.type == "response.function_call_arguments.delta"]
        response = stream.get_final_response()
    [item] = response.output
    assert (response.status, item.type, item.status) == ("completed", "function_call", "completed")
    assert "".join(deltas) == item.arguments == whole.output[0].arguments
    function = WEATHER["function"]
    tool = {"name": "weather", "input_schema": function["parameters"], "strict": True}
    tool["description"] = function["description"]
    choice = {"type": "tool", "name": "weather"}
    with (
        anthropic.Anthropic(api_key=tenant.secret, base_url=stack.base_url) as other,
        other.messages.stream(
            model=SMALL,
            messages=said(),
            tools=[tool],
            tool_choice=choice,
            max_tokens=tokens_max,
            extra_body={"temperature": 0},
        ) as events,
    ):
        pieces = [e.partial_json for e in events if e.type == "input_json"]
        message = events.get_final_message()
    [use] = message.content
    assert (message.stop_reason, use.name) == ("tool_use", "weather")
    assert use.input == json.loads("".join(pieces)) == json.loads(item.arguments)


def test_the_clients_parse_helper_gets_its_own_arguments(client: openai.OpenAI) -> None:
    class Forecast(BaseModel):
        town: Literal["Ulm", "Bonn"]
        exact: bool

    answer = client.chat.completions.parse(
        model=SMALL,
        messages=said(),
        tools=[openai.pydantic_function_tool(Forecast)],
        tool_choice="required",
        parallel_tool_calls=False,
    )
    [call] = answer.choices[0].message.tool_calls
    assert isinstance(call.function.parsed_arguments, Forecast)


def test_auto_answers_or_calls_and_none_never_calls(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(**asked(max_tokens=60, seed=4))
    [choice] = answer.choices
    if choice.finish_reason == "tool_calls":
        for call in choice.message.tool_calls:
            check(call)
    else:
        assert choice.message.content and not choice.message.tool_calls
    plain = client.chat.completions.create(model=SMALL, messages=said(), seed=4, temperature=0)
    none = client.chat.completions.create(**asked(tool_choice="none", seed=4, temperature=0))
    assert none.choices[0].message.content == plain.choices[0].message.content


def test_a_result_goes_back_and_the_prompt_counts_it(client: openai.OpenAI) -> None:
    first = client.chat.completions.create(**asked(tool_choice=NAMED, seed=3))
    message = first.choices[0].message
    told = [
        *said(),
        message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}),
        {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "rain"},
    ]
    second = client.chat.completions.create(**asked(messages=told, tool_choice="none"))
    assert second.choices[0].message.content
    third = client.chat.completions.create(**asked(messages=told, max_tokens=5))
    assert third.usage.prompt_tokens > first.usage.prompt_tokens > 50


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": 5}}}]},
            "tools[0].function.parameters",
            "invalid_function_parameters",
        ),
        ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0].type", None),
        ({"tool_choice": {"type": "function", "function": {"name": "no"}}}, None, None),
    ],
)
def test_what_cannot_be_done_is_named(
    client: openai.OpenAI, fields: dict[str, Any], param: str | None, code: str | None
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**asked(**fields))
    assert caught.value.param == (param or "tool_choice.function.name")
    assert code is None or caught.value.code == code


def test_models_say_that_they_take_tools(client: openai.OpenAI) -> None:
    found = client.models.retrieve(SMALL).model_dump()
    assert found["capabilities"]["tools"] and found["capabilities"]["json_schema"]
    assert {"tools", "response_format", "logit_bias"} <= set(found["supported_parameters"])


def test_a_server_outside_is_asked_as_it_was_said_and_its_calls_come_back(
    stack: Stack, client: openai.OpenAI, outside: Outside
) -> None:
    first = {"index": 0, "id": "call_x", "type": "function"}
    pieces = (
        [first | {"function": {"name": "weather", "arguments": ""}}],
        [{"index": 0, "function": {"arguments": '{"town": "Ulm",'}}],
        [{"index": 0, "function": {"arguments": ' "days": 2}'}}],
    )
    outside.begin(Script(words=(), tool_calls=pieces))
    fields = asked(
        model="outside",
        messages=[{"role": "developer", "content": "Be brief."}, *said()],
        tool_choice="required",
        parallel_tool_calls=False,
        presence_penalty=0.5,
        logit_bias={"5": 1},
        user="somebody",
    )
    answer = client.chat.completions.create(**fields)
    [call] = answer.choices[0].message.tool_calls
    assert (call.id, call.function.name) == ("call_x", "weather")
    assert json.loads(call.function.arguments) == {"town": "Ulm", "days": 2}
    assert answer.choices[0].finish_reason == "tool_calls"
    [sent] = outside.bodies
    assert {name: sent[name] for name in fields if name != "model"} == {
        name: value for name, value in fields.items() if name != "model"
    }
    streamed = client.chat.completions.create(**fields, stream=True)
    deltas = [c.choices[0].delta for c in streamed if c.choices]
    arguments = [d.tool_calls[0].function.arguments for d in deltas if d.tool_calls]
    assert "".join(arguments) == call.function.arguments
