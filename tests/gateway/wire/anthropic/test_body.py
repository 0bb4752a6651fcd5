"""Bodies of `/v1/messages`: what becomes of them, and what is refused in whose words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import ApiError
from gateway.wire.anthropic.body import CHECKS, parse_count, parse_message
from gateway.wire.conversation import Conversation
from gateway.wire.request import GeneratingRequest
from tests.gateway.wire.bodies import assert_taken_or_refused, refused, values

TOOL = {"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}
USER = {"role": "user", "content": "Is it raining?"}
USE = {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "é"}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "Rain."}
HINT = {"cache_control": {"type": "ephemeral", "ttl": "5m"}}


def body(**changes: Any) -> dict[str, Any]:
    return {"model": "tale", "max_tokens": 9, "messages": [USER]} | changes


def turns(*content: Any) -> list[dict[str, Any]]:
    """The user's, the assistant's and the user's again, of these contents."""
    roles = ("user", "assistant", "user")
    return [{"role": role, "content": said} for role, said in zip(roles, content, strict=True)]


def parsed(**changes: Any) -> tuple[GeneratingRequest, Conversation]:
    request = parse_message(json.dumps(body(**changes)).encode())
    assert isinstance(request.wanted, Conversation)
    return request, request.wanted


def test_turns_become_the_messages_of_a_conversation() -> None:
    text = {"type": "text", "text": "I look."} | HINT
    result = RESULT | {"content": [{"type": "text", "text": "Rain."}]}
    said = turns("Is it raining?", [text, USE], [result, {"type": "text", "text": "And now?"}])
    _, wanted = parsed(system=[{"type": "text", "text": "Be kind."} | HINT], messages=said)
    function = {"name": "look", "arguments": '{"at":"é"}'}
    assert [dict(message) for message in wanted.messages] == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Is it raining?"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [{"id": "t1", "type": "function", "function": function}],
        },
        {"role": "tool", "content": "Rain.", "tool_call_id": "t1"},
        {"role": "user", "content": "And now?"},
    ]


def test_turns_of_one_side_that_follow_each_other_are_one() -> None:
    given = [USER, {"role": "user", "content": [{"type": "text", "text": " Say."}]}]
    _, wanted = parsed(messages=given)
    assert wanted.messages == ({"role": "user", "content": "Is it raining? Say."},)


def test_failed_result_says_that_it_failed() -> None:
    said = turns("?", [USE], [RESULT | {"is_error": True, "content": "no sky"}])
    _, wanted = parsed(messages=said)
    assert wanted.messages[-1]["content"] == "Error: no sky"


def test_result_may_be_silent() -> None:
    said = turns("?", [USE], [{"type": "tool_result", "tool_use_id": "t1"}])
    _, wanted = parsed(messages=said)
    assert wanted.messages[-1] == {"role": "tool", "content": "", "tool_call_id": "t1"}


def test_everything_said_goes_where_chat_has_it() -> None:
    request, wanted = parsed(
        temperature=0.5,
        top_p=0.9,
        stop_sequences=["END"],
        tools=[TOOL | {"type": "custom", "strict": True} | HINT],
        tool_choice={"type": "tool", "name": "look", "disable_parallel_tool_use": True},
        output_config={"format": {"type": "json_schema", "schema": {"type": "object"}}},
        metadata={"user_id": "u" * 200},
        service_tier="standard_only",
        thinking={"type": "disabled"},
        cache_control={"type": "ephemeral"},
        stream=True,
    )
    function = {
        "name": "look",
        "description": "Looks.",
        "strict": True,
        "parameters": {"type": "object"},
    }
    assert wanted.tools == ({"type": "function", "function": function},)
    assert wanted.tool_choice == {"type": "function", "function": {"name": "look"}}
    assert wanted.parallel_tool_calls is False
    assert wanted.response_format is not None
    assert wanted.response_format["json_schema"]["schema"] == {"type": "object"}
    assert wanted.sampling == {"temperature": 0.5, "top_p": 0.9, "stop": ["END"]}
    assert (request.output_tokens_max, request.service_tier) == (9, "default")
    assert (request.end_user, request.end_user_param) == ("u" * 200, "metadata.user_id")
    assert request.streaming is not None


@pytest.mark.parametrize(
    ("choice", "expected"), [("auto", "auto"), ("any", "required"), ("none", "none")]
)
def test_choices_have_other_names_in_chat(choice: str, expected: str) -> None:
    assert parsed(tools=[TOOL], tool_choice={"type": choice})[1].tool_choice == expected


PICTURE = {"type": "base64", "media_type": "image/png", "data": "aGk="}


def image(source: Any) -> list[dict[str, Any]]:
    """After a turn of the same side, with which it is one."""
    return [USER, {"role": "user", "content": [{"type": "image", "source": source}]}]


def test_image_is_seen_where_chat_has_it() -> None:
    _, wanted = parsed(system="Look.", messages=image(PICTURE))
    assert wanted.images == ("messages[1].content[0]",)
    _, part = wanted.said[1]["content"]
    assert part["image_url"] == {"url": "data:image/png;base64,aGk="}


def text(**rest: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "text", "text": "x"} | rest]}]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no model": (body(model=None), "model"),
    "no room": (body(max_tokens=0), "max_tokens"),
    "no bound": (body(max_tokens=None), "max_tokens"),
    "no messages": (body(messages=None), "messages"),
    "an empty list": (body(messages=[]), "messages"),
    "messages of another type": (body(messages="x"), "messages"),
    "a message that is no object": (body(messages=["x"]), "messages[0]"),
    "an unknown role": (body(messages=[{"role": "tool", "content": "x"}]), "messages[0].role"),
    "a message without content": (body(messages=[{"role": "user"}]), "messages[0].content"),
    "an unknown field of a message": (body(messages=[USER | {"x": 1}]), "messages[0].x"),
    "a picture of nothing": (body(messages=image(None)), "messages[1].content[0].source"),
    "a picture that is kept": (
        body(messages=image({"type": "file", "file_id": "f"})),
        "messages[1].content[0].source.type",
    ),
    "a picture from anywhere": (
        body(messages=image({"type": "url", "url": "x"})),
        "messages[1].content[0].source.url",
    ),
    "a picture of no kind": (
        body(messages=image(PICTURE | {"media_type": "image/x"})),
        "messages[1].content[0].source.media_type",
    ),
    "a document": (
        body(messages=[{"role": "user", "content": [{"type": "document"}]}]),
        "messages[0].content[0].type",
    ),
    "thoughts": (
        body(messages=turns("?", [{"type": "thinking", "thinking": "x"}], "?")),
        "messages[1].content[0].type",
    ),
    "a result in the assistant's turn": (
        body(messages=turns("?", [RESULT], "?")),
        "messages[1].content[0].type",
    ),
    "a text that is none": (body(messages=text(text=1)), "messages[0].content[0].text"),
    "citations": (body(messages=text(citations=[{}])), "messages[0].content[0].citations"),
    "a hint nobody knows": (
        body(messages=text(cache_control={"type": "forever"})),
        "messages[0].content[0].cache_control.type",
    ),
    "an answer to go on with": (
        body(messages=[USER, {"role": "assistant", "content": "It is"}]),
        "messages[1].role",
    ),
    "an assistant's turn without a word": (
        body(messages=turns("?", [], "?")),
        "messages[1].content",
    ),
    "a user's turn without a word": (body(messages=turns([], "!", "?")), "messages[0].content"),
    "two uses of one id": (
        body(messages=turns("?", [USE, USE], [RESULT])),
        "messages[1].content[1].id",
    ),
    "a use without a result": (body(messages=turns("?", [USE], "?")), "messages[1].content[0]"),
    "a result without a use": (
        body(messages=[{"role": "user", "content": [RESULT]}]),
        "messages[0].content[0].tool_use_id",
    ),
    "a use without a name": (
        body(messages=turns("?", [USE | {"name": None}], [RESULT])),
        "messages[1].content[0].name",
    ),
    "a use without an id": (
        body(messages=turns("?", [USE | {"id": None}], [RESULT])),
        "messages[1].content[0].id",
    ),
    "an input that is no object": (
        body(messages=turns("?", [USE | {"input": "x"}], [RESULT])),
        "messages[1].content[0].input",
    ),
    "a result of an image": (
        body(messages=turns("?", [USE], [RESULT | {"content": [{"type": "image"}]}])),
        "messages[2].content[0].content[0].type",
    ),
    "a system of another type": (body(system=1), "system"),
    "a system of images": (body(system=[{"type": "image"}]), "system[0].type"),
    "a tool of Anthropic's": (body(tools=[{"type": "bash_20250124"}]), "tools[0].type"),
    "a tool without a name": (body(tools=[TOOL | {"name": None}]), "tools[0].name"),
    "a tool without a schema": (body(tools=[{"name": "x"}]), "tools[0].input_schema"),
    "a schema that is none": (body(tools=[TOOL | {"input_schema": 1}]), "tools[0].input_schema"),
    "a tool that is loaded later": (
        body(tools=[TOOL | {"defer_loading": True}]),
        "tools[0].defer_loading",
    ),
    "two tools of one name": (body(tools=[TOOL, TOOL]), "tools[1].name"),
    "a choice of no tool": (body(tool_choice={"type": "any"}), "tool_choice"),
    "a choice of a tool that is not there": (
        body(tools=[TOOL], tool_choice={"type": "tool", "name": "x"}),
        "tool_choice.name",
    ),
    "a choice nobody knows": (body(tools=[TOOL], tool_choice={"type": "x"}), "tool_choice.type"),
    "thinking": (body(thinking={"type": "enabled", "budget_tokens": 1024}), "thinking.type"),
    "effort": (body(output_config={"effort": "high"}), "output_config.effort"),
    "a format without a schema": (
        body(output_config={"format": {"type": "json_schema"}}),
        "output_config.format.schema",
    ),
    "too hot": (body(temperature=1.5), "temperature"),
    "top_k": (body(top_k=5), "top_k"),
    "a stop that is none": (body(stop_sequences="END"), "stop_sequences"),
    "too many stops": (body(stop_sequences=list("abcde")), "stop_sequences"),
    "an unknown tier": (body(service_tier="flex"), "service_tier"),
    "an unknown field of metadata": (body(metadata={"x": "y"}), "metadata.x"),
    "a long name of a user": (body(metadata={"user_id": "u" * 257}), "metadata.user_id"),
    "a faster answer": (body(speed="fast"), "speed"),
    "a container": (body(container="c"), "container"),
    "an unknown field": (body(n=2), "n"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusal_names_the_field_of_this_route(name: str) -> None:
    sent, param = REFUSED[name]
    error = refused(parse_message, sent)
    assert error.param == param
    assert "tool_calls[" not in error.message
    assert "function.name" not in error.message


def test_tokens_are_counted_of_the_same_conversation() -> None:
    said = {"tools": [TOOL], "system": "Be kind.", "tool_choice": {"type": "any"}}
    _, wanted = parsed(**said)
    model, counted = parse_count(json.dumps({"model": "tale", "messages": [USER]} | said).encode())
    assert (model, counted) == ("tale", wanted)


def test_counting_asks_for_no_bound_and_takes_none() -> None:
    with pytest.raises(ApiError) as caught:
        parse_count(json.dumps(body()).encode())
    assert caught.value.param == "max_tokens"


@given(field=st.sampled_from(sorted(CHECKS)), value=values)
def test_any_value_of_any_field_is_taken_or_refused(field: str, value: Any) -> None:
    assert_taken_or_refused(parse_message, body(**{field: value}))
    assert_taken_or_refused(parse_message, body(**{field: [value]}))


blocks = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["text", "tool_use", "tool_result", "image"]),
        "text": st.just("x") | values,
        "id": st.sampled_from(["t1", "t2"]) | values,
        "tool_use_id": st.sampled_from(["t1", "t2"]) | values,
        "name": st.just("look") | values,
        "input": st.just({}) | values,
        "content": st.just("x") | values,
        "is_error": st.booleans() | values,
    },
)
messages = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", "system"]),
        "content": st.just("x") | st.lists(blocks, max_size=3) | values,
    }
)


@given(st.lists(messages, max_size=4))
def test_any_messages_are_taken_or_refused(found: list[dict[str, Any]]) -> None:
    assert_taken_or_refused(parse_message, body(messages=found))
