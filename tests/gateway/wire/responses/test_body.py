"""Bodies of `/v1/responses`: what becomes of them, and what is refused in whose words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.call.request import GeneratingRequest
from gateway.errors import ApiError
from gateway.wire.bodies.conversation import Conversation
from gateway.wire.responses.body import RESPONSE, parse_input_count, parse_response
from tests.gateway.wire.bodies import assert_taken_or_refused, refused, values

TOOL = {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": True}
CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "Rain."}
THOUGHT = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm."}]}
SCORED = {"role": "assistant"}
UNSCORED = {"type": "output_text", "text": "a", "logprobs": [{"token": 5, "logprob": "x"}]}
SCORES_AT = "input[0].content[0].logprobs"
SECRET = {"encrypted_content": "gAAAA"}


def body(**changes: Any) -> dict[str, Any]:
    return {"model": "tale", "input": "Tell a story."} | changes


def parsed(**changes: Any) -> tuple[GeneratingRequest, Conversation]:
    request = parse_response(json.dumps(body(**changes)).encode())
    assert isinstance(request.payload, Conversation)
    return request, request.payload


def test_string_is_what_the_user_says_after_the_instructions() -> None:
    _, wanted = parsed(instructions="Be kind.")
    assert wanted.messages == (
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Tell a story."},
    )


def test_items_become_the_turns_of_a_conversation() -> None:
    given = [
        {"role": "developer", "content": [{"type": "input_text", "text": "Be kind."}]},
        {"type": "message", "role": "user", "content": "Is it raining?"},
        {
            "type": "message",
            "id": "msg_1",
            "status": "completed",
            "role": "assistant",
            "content": [
                {"type": "output_text", "text": "I look.", "annotations": [], "logprobs": []}
            ],
        },
        CALL | {"id": "fc_1", "status": "completed"},
        CALL | {"call_id": "c2"},
        OUTPUT,
        OUTPUT | {"call_id": "c2", "output": [{"type": "input_text", "text": "Sun."}]},
    ]
    _, wanted = parsed(input=given, tools=[TOOL])
    function = {"name": "look", "arguments": "{}"}
    assert [dict(message) for message in wanted.messages] == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Is it raining?"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": function},
                {"id": "c2", "type": "function", "function": function},
            ],
        },
        {"role": "tool", "content": "Rain.", "tool_call_id": "c1"},
        {"role": "tool", "content": "Sun.", "tool_call_id": "c2"},
    ]


def test_call_that_was_answered_is_its_own_turn() -> None:
    given = [{"role": "user", "content": "?"}, CALL, OUTPUT, CALL | {"call_id": "c2"}]
    given.append(OUTPUT | {"call_id": "c2"})
    _, wanted = parsed(input=given)
    roles = [message["role"] for message in wanted.messages]
    assert roles == ["user", "assistant", "tool", "assistant", "tool"]


def test_everything_said_goes_where_chat_has_it() -> None:
    schema = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}
    request, wanted = parsed(
        max_output_tokens=9,
        temperature=0.5,
        top_p=0.9,
        tools=[TOOL],
        tool_choice={"type": "function", "name": "look"},
        parallel_tool_calls=False,
        text={"format": schema, "verbosity": "medium"},
        reasoning={"effort": "none"},
        metadata={"a": "b"},
        user="u1",
        safety_identifier="s1",
        service_tier="flex",
        stream=True,
        stream_options={"include_obfuscation": False},
        include=["message.output_text.logprobs", "reasoning.encrypted_content"],
        top_logprobs=2,
        truncation="disabled",
        store=False,
        background=False,
        previous_response_id=None,
    )
    function = {name: TOOL[name] for name in ("name", "parameters", "strict")}
    assert wanted.tools == ({"type": "function", "function": function},)
    assert wanted.tool_choice == {"type": "function", "function": {"name": "look"}}
    assert wanted.parallel_tool_calls is False
    assert wanted.response_format is not None
    assert wanted.response_format["json_schema"]["schema"] == {"type": "object"}
    assert (wanted.logprobs, wanted.choices) == (2, 1)
    assert wanted.sampling == {"temperature": 0.5, "top_p": 0.9}
    assert (request.output_tokens_max, request.service_tier) == (9, "flex")
    assert (request.end_user, request.streaming is not None) == ("s1", True)


def test_sampling_is_taken_in_vllms_words() -> None:
    asked = {"top_k": 5, "min_p": 0.1, "repetition_penalty": 1.2, "ignore_eos": True}
    _, wanted = parsed(**asked, min_tokens=0, stop_token_ids=[])
    assert wanted.sampling == asked, "a neutral value asks for nothing"
    with pytest.raises(ApiError) as refused:
        parsed(top_k=-2)
    assert (refused.value.status, refused.value.param) == (400, "top_k")


def test_some_of_the_tools_may_be_allowed() -> None:
    allowed = {"type": "allowed_tools", "mode": "required"}
    named = [{"type": "function", "name": "look"}]
    _, wanted = parsed(tools=[TOOL], tool_choice=allowed | {"tools": named})
    assert wanted.tool_choice == {
        "type": "allowed_tools",
        "allowed_tools": {
            "mode": "required",
            "tools": [{"type": "function", "function": {"name": "look"}}],
        },
    }


USER = {"role": "user", "content": "?"}
ANSWER = {"role": "assistant", "content": "Yes."}


def image(**rest: Any) -> list[dict[str, Any]]:
    part = {"type": "input_image", "image_url": "https://a.example/b.png"} | rest
    return [{"role": "user", "content": [part]}]


def test_image_is_seen_where_chat_has_it() -> None:
    _, wanted = parsed(instructions="Look.", input=image(detail="low"))
    assert wanted.images == ("input[0].content[0]",)
    [part] = wanted.full_messages[1]["content"]
    assert part["image_url"] == {"url": "https://a.example/b.png", "detail": "low"}


SUMMED_UP = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}


@pytest.mark.parametrize("thought", [THOUGHT, THOUGHT | {"summary": []}, SUMMED_UP])
def test_reasoning_that_led_to_nothing_yet_is_told_to_servers_outside_alone(
    thought: dict[str, Any],
) -> None:
    turn = {"role": "assistant", "content": "", "reasoning_content": "Hm."}
    _, last = parsed(input=[USER, thought])
    assert last.own_body(5)["messages"] == ({"role": "user", "content": "?"},)
    assert last.outside_body(5)["messages"] == ({"role": "user", "content": "?"}, turn)
    _, first = parsed(input=[thought, USER])
    assert first.outside_body(5)["messages"] == (turn, {"role": "user", "content": "?"})
    _, empty = parsed(input=[USER, {"type": "reasoning", "summary": []}, ANSWER])
    assert [m["role"] for m in empty.messages] == ["user", "assistant"]


def test_penalties_are_the_engines() -> None:
    _, wanted = parsed(presence_penalty=0.5, frequency_penalty=-1, temperature=0)
    assert wanted.sampling == {
        "presence_penalty": 0.5,
        "frequency_penalty": -1,
        "temperature": 0,
    }


def test_count_takes_what_only_a_prompt_has() -> None:
    asked = {name: value for name, value in body(tools=[TOOL], instructions="Be kind.").items()}
    model, wanted = parse_input_count(json.dumps(asked).encode())
    assert (model, wanted) == ("tale", parsed(tools=[TOOL], instructions="Be kind.")[1])
    for wrong, param in (
        ({"max_output_tokens": 5}, "max_output_tokens"),
        ({"input": None}, "input"),
    ):
        assert refused(parse_input_count, asked | wrong).param == param


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no input": (body(input=None), "input"),
    "input of another type": (body(input=1), "input"),
    "no items": (body(input=[]), "input"),
    "an item that is no object": (body(input=["x"]), "input[0]"),
    "an unknown role": (body(input=[{"role": "x", "content": "?"}]), "input[0].role"),
    "a message without content": (body(input=[{"role": "user"}]), "input[0].content"),
    "an unknown field of a message": (body(input=[USER | {"x": 1}]), "input[0].x"),
    "a part of the other side": (
        body(input=[{"role": "user", "content": [{"type": "output_text", "text": "x"}]}]),
        "input[0].content[0].type",
    ),
    "a picture of nothing": (body(input=image(image_url=None)), "input[0].content[0].image_url"),
    "a picture that is kept": (body(input=image(file_id="f")), "input[0].content[0].file_id"),
    "a picture from anywhere": (
        body(instructions="Look.", input=image(image_url="x")),
        "input[0].content[0].image_url",
    ),
    "a picture too fine": (body(input=image(detail="best")), "input[0].content[0].detail"),
    "a picture of the assistant's": (
        body(input=[image()[0] | {"role": "assistant"}]),
        "input[0].content[0].type",
    ),
    "a text that is none": (
        body(input=[{"role": "user", "content": [{"type": "input_text", "text": 1}]}]),
        "input[0].content[0].text",
    ),
    "nothing at all": (body(input=[]), "input"),
    "nothing but instructions": (body(instructions="Be kind.", input=[]), "input"),
    "a message of no parts": (body(input=[USER | {"content": []}]), "input[0].content"),
    "two calls of one id": (body(input=[CALL, CALL, OUTPUT]), "input[1].call_id"),
    "scores that are none": (body(input=[SCORED | {"content": [UNSCORED]}]), SCORES_AT),
    "a store that is no boolean": (body(store=0), "store"),
    "reasoning summed up in nothing": (
        body(input=[USER, THOUGHT | {"summary": [{}]}]),
        "input[1].summary[0].type",
    ),
    "reasoning in secret": (body(input=[USER, THOUGHT | SECRET]), "input[1].type"),
    "reasoning that is no text": (
        body(input=[USER, THOUGHT | {"content": [{"type": "reasoning_text", "text": 1}]}]),
        "input[1].content[0].text",
    ),
    "nothing but reasoning": (body(input=[THOUGHT]), "input"),
    "nothing but reasoning without words": (body(input=[{"type": "reasoning"}]), "input"),
    "an unknown phase": (body(input=[USER, ANSWER | {"phase": "late"}]), "input[1].phase"),
    "a reference": (body(input=[USER, {"type": "item_reference", "id": "x"}]), "input[1].type"),
    "a call of a built-in tool": (body(input=[{"type": "web_search_call"}]), "input[0].type"),
    "a call without an output": (body(input=[USER, CALL]), "input[1].call_id"),
    "an output without a call": (body(input=[USER, OUTPUT]), "input[1].call_id"),
    "an output that comes late": (body(input=[CALL, USER, OUTPUT]), "input[0]"),
    "a call without a name": (body(input=[CALL | {"name": None}, OUTPUT]), "input[0].name"),
    "arguments that are no text": (
        body(input=[CALL | {"arguments": {}}, OUTPUT]),
        "input[0].arguments",
    ),
    "a call without an id": (body(input=[CALL | {"call_id": None}]), "input[0].call_id"),
    "an output without a word": (body(input=[CALL, OUTPUT | {"output": None}]), "input[1].output"),
    "a built-in tool": (body(tools=[TOOL, {"type": "file_search"}]), "tools[1].type"),
    "a search and no other tool": (body(tools=[{"type": "web_search"}]), "tools[0].type"),
    "a tool without a name": (body(tools=[{"type": "function"}]), "tools[0].name"),
    "an unknown field of a tool": (body(tools=[TOOL | {"x": 1}]), "tools[0].x"),
    "a nested tool, as chat has them": (
        body(tools=[{"type": "function", "function": {"name": "x"}}]),
        "tools[0].function",
    ),
    "two tools of one name": (body(tools=[TOOL, TOOL]), "tools[1].name"),
    "a choice of no tool": (body(tool_choice="required"), "tool_choice"),
    "a choice of a tool that is not there": (
        body(tools=[TOOL], tool_choice={"type": "function", "name": "x"}),
        "tool_choice.name",
    ),
    "a built-in choice": (
        body(tools=[TOOL], tool_choice={"type": "file_search"}),
        "tool_choice.type",
    ),
    "an allowed tool that is not there": (
        body(
            tools=[TOOL],
            tool_choice={
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "function", "name": "x"}],
            },
        ),
        "tool_choice.tools[0].name",
    ),
    "a schema without one": (
        body(text={"format": {"type": "json_schema", "name": "n"}}),
        "text.format.schema",
    ),
    "an unknown format": (body(text={"format": {"type": "xml"}}), "text.format.type"),
    "an unknown verbosity": (body(text={"verbosity": "loud"}), "text.verbosity"),
    "an unknown field of text": (body(text={"x": 1}), "text.x"),
    "an unknown effort": (body(reasoning={"effort": "huge"}), "reasoning.effort"),
    "an unknown summary": (body(reasoning={"summary": "long"}), "reasoning.summary"),
    "an include of another tool": (body(include=["file_search_call.results"]), "include[0]"),
    "top_logprobs alone": (body(top_logprobs=1), "top_logprobs"),
    "obfuscation": (
        body(stream=True, stream_options={"include_obfuscation": True}),
        "stream_options.include_obfuscation",
    ),
    "automatic truncation": (body(truncation="auto"), "truncation"),
    "a stored answer": (body(store=True), "store"),
    "an answer in the background": (body(background=True), "background"),
    "an earlier answer": (body(previous_response_id="resp_1"), "previous_response_id"),
    "a kept conversation": (body(conversation="conv_1"), "conversation"),
    "a kept prompt": (body(prompt={"id": "p"}), "prompt"),
    "a bound on built-in tools": (body(max_tool_calls=1), "max_tool_calls"),
    "too hot": (body(temperature=3), "temperature"),
    "no room": (body(max_output_tokens=0), "max_output_tokens"),
    "an unknown field": (body(stop=["x"]), "stop"),
    "messages, as chat has them": (body(messages=[USER]), "messages"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusal_names_the_field_of_this_route(name: str) -> None:
    sent, param = REFUSED[name]
    error = refused(parse_response, sent)
    assert error.param == param
    assert "messages[" not in error.message
    assert "function.name" not in error.message


@pytest.mark.parametrize(
    "name", ["a stored answer", "an answer in the background", "an earlier answer"]
)
def test_what_needs_memory_is_refused_with_the_reason(name: str) -> None:
    assert "keeps no answers" in refused(parse_response, REFUSED[name][0]).message


@given(field=st.sampled_from(sorted(RESPONSE.checks)), value=values)
def test_any_value_of_any_field_is_taken_or_refused(field: str, value: Any) -> None:
    assert_taken_or_refused(parse_response, body(**{field: value}))


items = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["message", "function_call", "function_call_output", "reasoning"]),
        "role": st.sampled_from(["user", "assistant", "system", "tool"]),
        "content": values | st.just("x") | st.just([{"type": "input_text", "text": "x"}]),
        "call_id": st.sampled_from(["c1", "c2"]) | values,
        "name": st.just("look") | values,
        "arguments": st.just("{}") | values,
        "output": st.just("x") | values,
    },
)


@given(st.lists(items, max_size=5))
def test_any_items_are_taken_or_refused(found: list[dict[str, Any]]) -> None:
    assert_taken_or_refused(parse_response, body(input=found))


@given(field=st.sampled_from(["tools", "tool_choice", "text", "reasoning"]), value=values)
def test_any_list_of_anything_is_taken_or_refused(field: str, value: Any) -> None:
    assert_taken_or_refused(parse_response, body(**{field: [value]}))
    assert_taken_or_refused(parse_response, body(**{field: {"type": "function", "tools": value}}))
