"""Bodies of `/v1/messages`: what becomes of them, and what is refused in whose words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.call.request import GeneratingRequest
from gateway.errors import ApiError
from gateway.wire.anthropic.body import MESSAGE, parse_count, parse_message
from gateway.wire.anthropic.dialect import ANTHROPIC
from gateway.wire.bodies.conversation import Conversation
from tests.gateway.wire.bodies import assert_taken_or_refused, refused, values

TOOL = {"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}
USER = {"role": "user", "content": "Is it raining?"}
USE = {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "é"}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "Rain."}
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
HINT = {"cache_control": {"type": "ephemeral", "ttl": "5m"}}


def body(**changes: Any) -> dict[str, Any]:
    return {"model": "tale", "max_tokens": 9, "messages": [USER]} | changes


def turns(*content: Any) -> list[dict[str, Any]]:
    """The user's, the assistant's and the user's again, of these contents."""
    roles = ("user", "assistant", "user")
    return [{"role": role, "content": said} for role, said in zip(roles, content, strict=True)]


def parsed(**changes: Any) -> tuple[GeneratingRequest, Conversation]:
    request = parse_message(json.dumps(body(**changes)).encode())
    assert isinstance(request.payload, Conversation)
    return request, request.payload


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
    _, part = wanted.full_messages[1]["content"]
    assert part["image_url"] == {"url": "data:image/png;base64,aGk="}


def test_image_of_a_result_follows_the_results() -> None:
    """Chat has no place for it in the message of a tool."""
    shown = [{"type": "text", "text": "A sky."}, {"type": "image", "source": PICTURE}]
    seen = RESULT | {"content": shown[1:], "tool_use_id": "t2"}
    said = turns("?", [USE, USE | {"id": "t2"}], [RESULT | {"content": shown}, seen])
    _, wanted = parsed(messages=[*said[:2], {"role": "user", "content": [*said[2]["content"]]}])
    *_, first, second, images = wanted.full_messages
    assert [part["text"] for part in first["content"]] == ["A sky."]
    assert "image" in second["content"][0]["text"]
    assert [part["type"] for part in images["content"]] == ["image_url"] * 2
    assert wanted.images == (
        "messages[2].content[0].content[1]",
        "messages[2].content[1].content[0]",
    )


def test_a_mistake_behind_the_image_of_a_result_names_its_own_place() -> None:
    picture = {"type": "image", "source": PICTURE}
    content = [RESULT | {"content": [picture, {"type": "chart"}]}]
    with pytest.raises(ApiError) as refused:
        parsed(messages=turns("?", [USE], content))
    assert refused.value.param == "messages[2].content[0].content[1].type"


def test_the_first_of_several_unknown_fields_is_named() -> None:
    unknown = dict.fromkeys(("zebra", "yak", "xerus", "wolf", "vole", "urial"), 1)
    with pytest.raises(ApiError) as refused:
        parsed(messages=[USER | unknown])
    assert refused.value.param == "messages[0].zebra"


def test_thoughts_go_back_to_servers_outside_and_to_no_model_here() -> None:
    redacted = {"type": "redacted_thinking", "data": "x"}
    said = [THOUGHT, redacted, {"type": "text", "text": "I look."}, USE]
    _, wanted = parsed(messages=turns("?", said, [RESULT]))
    assert wanted.outside_body(9)["messages"][1]["reasoning_content"] == "Hm."
    assert "reasoning_content" not in wanted.own_body(9)["messages"][1]
    _, wanted = parsed(messages=turns("?", [THOUGHT, redacted], "?"))
    assert wanted.messages[1] == {"role": "assistant", "content": ""}


EFFORTS: list[tuple[dict[str, Any], str | None]] = [
    ({}, None),
    ({"thinking": {"type": "disabled"}}, None),
    ({"thinking": {"type": "adaptive", "display": "summarized"}}, None),
    ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "low"),
    ({"thinking": {"type": "enabled", "budget_tokens": 8192}}, "medium"),
    ({"thinking": {"type": "enabled", "budget_tokens": 8193}}, "high"),
    ({"output_config": {"effort": "medium"}}, "medium"),
    ({"output_config": {"effort": "max"}, "thinking": {"type": "adaptive"}}, "high"),
    ({"output_config": {"effort": "low"}, "thinking": {"type": "enabled"}}, "low"),
]


@pytest.mark.parametrize(("changes", "effort"), EFFORTS, ids=str)
def test_thinking_is_an_effort_to_servers_outside_and_nothing_to_models_here(
    changes: dict[str, Any], effort: str | None
) -> None:
    _, wanted = parsed(**changes)
    assert wanted.outside_body(9).get("reasoning_effort") == effort
    assert wanted.own_body(9) == parsed()[1].own_body(9)


def test_hints_of_agents_are_taken() -> None:
    edits = [{"type": "clear_thinking_20251015", "keep": "all"}, {"type": "compact_20260112"}]
    shared = {"cache_control": {"type": "ephemeral", "ttl": "1h", "scope": "global"}}
    _, wanted = parsed(
        system=[{"type": "text", "text": "Be kind."} | shared],
        context_management={"edits": edits},
        tools=[TOOL | {"defer_loading": True}],
    )
    assert wanted.own_body(9) == parsed(system="Be kind.", tools=[TOOL])[1].own_body(9)


def test_thread_is_refused_in_the_words_that_clients_look_for() -> None:
    """Whatever else is in the body: a client that continues a thread says only what is new."""
    for sent in (body(thread={"type": "create"}), {"thread": {"type": "continue"}, "x": 1}):
        error = refused(parse_message, sent)
        told = json.loads(ANTHROPIC.refusal(error, "req_1"))["error"]
        assert told["type"] == "invalid_request_error"
        assert told["details"] == {
            "error_code": "thread_unsupported_request",
            "unsupported": ["thread"],
        }
    assert "details" not in json.loads(error.body())["error"], "which is Anthropic's word"


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
    "thoughts of the user": (
        body(messages=[{"role": "user", "content": [THOUGHT]}]),
        "messages[0].content[0].type",
    ),
    "a thought that is none": (
        body(messages=turns("?", [THOUGHT | {"thinking": 1}], "?")),
        "messages[1].content[0].thinking",
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
    "a result of no image": (
        body(messages=turns("?", [USE], [RESULT | {"content": [{"type": "image"}]}])),
        "messages[2].content[0].content[0].source",
    ),
    "a result of a document": (
        body(messages=turns("?", [USE], [RESULT | {"content": [{"type": "document"}]}])),
        "messages[2].content[0].content[0].type",
    ),
    "a system of another type": (body(system=1), "system"),
    "a system of images": (body(system=[{"type": "image"}]), "system[0].type"),
    "a tool of Anthropic's": (body(tools=[{"type": "bash_20250124"}]), "tools[0].type"),
    "a tool without a name": (body(tools=[TOOL | {"name": None}]), "tools[0].name"),
    "a tool without a schema": (body(tools=[{"name": "x"}]), "tools[0].input_schema"),
    "a schema that is none": (body(tools=[TOOL | {"input_schema": 1}]), "tools[0].input_schema"),
    "a tool that is loaded some time": (
        body(tools=[TOOL | {"defer_loading": "x"}]),
        "tools[0].defer_loading",
    ),
    "two tools of one name": (body(tools=[TOOL, TOOL]), "tools[1].name"),
    "a choice of no tool": (body(tool_choice={"type": "any"}), "tool_choice"),
    "a choice of a tool that is not there": (
        body(tools=[TOOL], tool_choice={"type": "tool", "name": "x"}),
        "tool_choice.name",
    ),
    "a choice nobody knows": (body(tools=[TOOL], tool_choice={"type": "x"}), "tool_choice.type"),
    "thinking of no kind": (body(thinking={"type": "x"}), "thinking.type"),
    "thinking without a bound": (
        body(thinking={"type": "enabled", "budget_tokens": 0}),
        "thinking.budget_tokens",
    ),
    "an unknown field of thinking": (body(thinking={"type": "adaptive", "x": 1}), "thinking.x"),
    "an unknown effort": (body(output_config={"effort": "huge"}), "output_config.effort"),
    "edits that are none": (
        body(context_management={"edits": [{}]}),
        "context_management.edits[0].type",
    ),
    "servers of tools": (body(mcp_servers=[{"type": "url"}]), "mcp_servers"),
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


@given(field=st.sampled_from(sorted(MESSAGE.checks)), value=values)
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
