"""Tools, their choice, the calls of earlier answers and the form of the answer: every field, good
and bad, with the exact refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from billing.types import Usage
from gateway.call.frame import Choice, Frame
from gateway.catalog.tokenizers import ByteBound, CheckpointTokens
from gateway.errors import ApiError
from gateway.upstream.answer import Cut
from gateway.upstream.chunks import read_chunk
from gateway.wire.answer import AnswerHead
from gateway.wire.bodies.chat import ChatForm, parse_chat
from gateway.wire.bodies.checks import SCHEMA_BYTES_MAX
from gateway.wire.bodies.completions import parse_completion
from gateway.wire.bodies.conversation import Conversation
from gateway.wire.whole_choice import WholeChoice
from tests.gateway.wire.bodies import assert_taken_or_refused, refused, values

USER = {"role": "user", "content": "Hi"}
GOOD: dict[str, Any] = {"model": "tale", "messages": [USER]}
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a town.",
        "parameters": {"type": "object", "properties": {"town": {"type": "string"}}},
        "strict": True,
    },
}
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"town":"Ulm"}'},
}
ASKED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
TOLD = {"role": "tool", "tool_call_id": "call_1", "content": "rain"}
NAMED = {"type": "function", "function": {"name": "weather"}}
ALLOWED = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED]}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}


def conversation(**changes: Any) -> Conversation:
    found = parse_chat(json.dumps(GOOD | changes).encode()).payload
    assert isinstance(found, Conversation)
    return found


def tool(**changes: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f"} | changes}


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"tools": {}}, "tools", "invalid_type"),
    ({"tools": [5]}, "tools[0]", "invalid_type"),
    ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0].type", "invalid_value"),
    ({"tools": [{"type": "function"}]}, "tools[0].function", "missing_required_parameter"),
    ({"tools": [tool(name=None)]}, "tools[0].function.name", "missing_required_parameter"),
    ({"tools": [tool(name="a b")]}, "tools[0].function.name", "invalid_value"),
    ({"tools": [tool(name="")]}, "tools[0].function.name", "invalid_value"),
    ({"tools": [tool(name="a" * 65)]}, "tools[0].function.name", "string_above_max_length"),
    ({"tools": [tool(description=1)]}, "tools[0].function.description", "invalid_type"),
    ({"tools": [tool(strict="yes")]}, "tools[0].function.strict", "invalid_type"),
    ({"tools": [tool(parameters=[])]}, "tools[0].function.parameters", "invalid_type"),
    ({"tools": [tool(other=1)]}, "tools[0].function.other", "unknown_parameter"),
    ({"tools": [tool(), tool()]}, "tools[1].function.name", "invalid_value"),
    ({"tools": [tool(name=f"f{n}") for n in range(129)]}, "tools", "array_above_max_length"),
    (
        {"tools": [tool(parameters={"a": "x" * SCHEMA_BYTES_MAX})]},
        "tools[0].function.parameters",
        "invalid_json_schema",
    ),
    ({"tool_choice": "required"}, "tool_choice", "invalid_value"),
    ({"tool_choice": "maybe", "tools": [WEATHER]}, "tool_choice", "invalid_value"),
    ({"tool_choice": {"type": "custom"}}, "tool_choice.type", "invalid_value"),
    (
        {"tool_choice": {"type": "function"}, "tools": [WEATHER]},
        "tool_choice.function",
        "missing_required_parameter",
    ),
    ({"tool_choice": NAMED, "tools": [tool()]}, "tool_choice.function.name", "invalid_value"),
    (
        {"tool_choice": ALLOWED, "tools": [tool()]},
        "tool_choice.allowed_tools.tools[0].function.name",
        "invalid_value",
    ),
    ({"messages": [USER, ASKED]}, "messages[1].tool_calls", "invalid_value"),
    ({"messages": [USER, ASKED, USER, TOLD]}, "messages[1].tool_calls", "invalid_value"),
    ({"messages": [USER, TOLD]}, "messages[1].role", "invalid_value"),
    ({"messages": [ASKED, TOLD, TOLD]}, "messages[2].role", "invalid_value"),
    (
        {"messages": [ASKED | {"tool_calls": [CALL | {"index": -1}]}, TOLD]},
        "messages[0].tool_calls[0].index",
        "invalid_value",
    ),
    ({"messages": [USER, ASKED, TOLD | {"name": 5}]}, "messages[2].name", "invalid_type"),
    ({"messages": [ASKED | {"tool_calls": []}]}, "messages[0].tool_calls", "invalid_type"),
    (
        {"messages": [ASKED | {"tool_calls": [CALL, CALL]}, TOLD]},
        "messages[0].tool_calls[1].id",
        "invalid_value",
    ),
    (
        {"messages": [ASKED | {"tool_calls": [CALL | {"id": None}]}]},
        "messages[0].tool_calls[0].id",
        "missing_required_parameter",
    ),
    (
        {"messages": [ASKED | {"tool_calls": [CALL | {"function": {"name": "f"}}]}]},
        "messages[0].tool_calls[0].function.arguments",
        "missing_required_parameter",
    ),
    ({"messages": [{"role": "assistant"}]}, "messages[0].content", "invalid_type"),
    ({"response_format": {"type": "xml"}}, "response_format.type", "invalid_value"),
    (
        {"response_format": {"type": "json_schema"}},
        "response_format.json_schema",
        "missing_required_parameter",
    ),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}},
        "response_format.json_schema.name",
        "missing_required_parameter",
    ),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a"}}},
        "response_format.json_schema.schema",
        "missing_required_parameter",
    ),
    (
        {"response_format": {"type": "json_object", "schema": {}}},
        "response_format.schema",
        "unknown_parameter",
    ),
]


@pytest.mark.parametrize(("changes", "param", "code"), WRONG, ids=lambda value: str(value)[:50])
def test_wrong_field_is_named_with_its_code(
    changes: dict[str, Any], param: str, code: str | None
) -> None:
    error = refused(parse_chat, GOOD | changes)
    assert (error.param, error.code) == (param, code)


@pytest.mark.parametrize("choice", ["auto", "none", "required", NAMED, ALLOWED])
def test_every_choice_reaches_both_kinds_of_engine(choice: Any) -> None:
    asked = conversation(tools=[WEATHER], tool_choice=choice, parallel_tool_calls=False)
    own, outside = asked.own_body(5), asked.outside_body(5)
    assert outside["tools"] == (WEATHER,)
    assert outside["parallel_tool_calls"] is False
    assert outside.get("tool_choice", "auto") == choice
    if choice == "none":
        assert "tools" not in own, "a model that may call nothing is told of nothing"
    else:
        assert (own["tools"], own.get("tool_choice", "auto")) == ((WEATHER,), choice)


def test_form_of_the_answer_reaches_both_kinds_of_engine() -> None:
    asked = conversation(response_format=SCHEMA)
    assert asked.own_body(5)["response_format"] == SCHEMA
    assert asked.outside_body(5)["response_format"] == SCHEMA
    assert conversation(response_format={"type": "text"}).response_format is None


def test_calls_and_their_results_reach_a_model_plain_and_a_server_as_they_came() -> None:
    parts = [{"type": "text", "text": "ra"}, {"type": "text", "text": "in"}]
    told = TOLD | {"content": parts}
    asked = conversation(messages=[USER, ASKED, told], tools=[WEATHER])
    assert asked.own_body(5)["messages"] == (
        USER,
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        TOLD,
    )
    assert asked.outside_body(5)["messages"] == (USER, ASKED, told)


def test_a_tools_message_may_be_named_and_its_calls_numbered() -> None:
    """As langchain and Open WebUI send them back."""
    numbered = ASKED | {"tool_calls": [{"index": 0} | CALL]}
    named = TOLD | {"name": "weather"}
    asked = conversation(messages=[USER, numbered, named], tools=[WEATHER])
    for body in (asked.own_body(5), asked.outside_body(5)):
        called, told = body["messages"][1:]
        assert called["tool_calls"] == [CALL]
        assert told == named


def test_bias_of_a_token_that_the_model_lacks_is_refused_before_a_worker_is_asked() -> None:
    small = CheckpointTokens(Path(__file__).parents[3] / "models" / "sluice-small")
    plain = {"model": "tale", "prompt": "x", "logit_bias": {"2048": 1}}
    completion = parse_completion(json.dumps(plain).encode(), lambda model, ids: "")
    for asked in (conversation(logit_bias={"2048": 1}), completion.payload):
        with pytest.raises(ApiError) as caught:
            asked.prompt_tokens(small)
        assert (caught.value.status, caught.value.param) == (400, "logit_bias")
        assert asked.prompt_tokens(ByteBound())
    assert conversation(logit_bias={"2047": 1}).prompt_tokens(small)


def test_labels_go_to_servers_outside_and_not_to_models() -> None:
    labels = {"user": "u", "safety_identifier": "s", "metadata": {"a": "b"}}
    asked = conversation(**labels)
    assert asked.outside_body(5).items() >= labels.items()
    assert not labels.keys() & asked.own_body(5).keys()


@pytest.mark.parametrize(
    ("said", "end_user"),
    [({}, None), ({"user": "u"}, "u"), ({"user": "u", "safety_identifier": "s"}, "s")],
)
def test_end_user_is_the_newer_name_or_else_the_older(
    said: dict[str, str], end_user: str | None
) -> None:
    assert parse_chat(json.dumps(GOOD | said).encode()).end_user == end_user


@settings(max_examples=200)
@given(
    st.sampled_from(["tools", "tool_choice", "response_format", "messages"]),
    st.recursive(
        values | st.sampled_from([WEATHER, NAMED, ALLOWED, SCHEMA, USER, ASKED, TOLD, "required"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["type", "function", "name", "json_schema", "tool_calls", "role"]),
                inner,
            )
        ),
        max_leaves=8,
    ),
)
def test_any_shape_is_taken_or_refused(field: str, value: Any) -> None:
    assert_taken_or_refused(parse_chat, {"tools": [WEATHER]} | GOOD | {field: value})


# --- answers ------------------------------------------------------------------------------------

HEAD = AnswerHead("1", 1_790_000_000, "tale", "default")


def piece(index: int, arguments: str, **first: Any) -> dict[str, Any]:
    named = {"name": first.pop("name")} if "name" in first else {}
    return {"index": index, "function": named | {"arguments": arguments}} | first


PIECES = [
    [piece(0, '{"to', id="call_a", type="function", name="weather")],
    [piece(0, 'wn":"Ulm"}')],
    [piece(1, "{}", id="call_b", type="function", name="time")],
]
WHOLE = [
    {
        "id": "call_a",
        "type": "function",
        "function": {"name": "weather", "arguments": '{"town":"Ulm"}'},
    },
    {"id": "call_b", "type": "function", "function": {"name": "time", "arguments": "{}"}},
]


def called() -> list[Choice]:
    said = [Choice(delta={"content": "", "tool_calls": calls}) for calls in PIECES]
    return [*said, Choice(delta={"content": ""}, finish_reason="tool_calls")]


def test_whole_answer_with_calls_is_what_the_openai_client_reads() -> None:
    gathered = WholeChoice(0)
    for choice in called():
        gathered.add(choice)
    assert list(gathered.tool_calls) == WHOLE
    raw = ChatForm(1, scored=False).whole(HEAD, [gathered], Usage(input=3, output=2), "0.1")
    [choice] = ChatCompletion.model_validate_json(raw, strict=True).choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    assert (
        choice.message.tool_calls
        and [call.model_dump() for call in choice.message.tool_calls] == WHOLE
    )


def test_chunks_with_calls_are_the_workers_own() -> None:
    form = ChatForm(1, scored=False).chunks(HEAD, False)
    raws = [raw for choice in called() for raw in form.piece(choice, None)]
    texts = [raw.removeprefix(b"data: ").strip() for raw in raws]
    chunks = [ChatCompletionChunk.model_validate_json(text, strict=True) for text in texts]
    assert [json.loads(text)["choices"][0]["delta"] for text in texts] == [
        *({"tool_calls": calls} for calls in PIECES),
        {},
    ]
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_calls_count_as_text() -> None:
    assert Frame(tuple(called())).texts == 3


@pytest.mark.parametrize(
    "calls",
    [
        5,
        "x",
        [5],
        [{}],
        [{"index": -1}],
        [{"index": 0, "function": {"arguments": 5}}],
        [{"index": 1024}],
    ],
)
def test_malformed_calls_of_a_server_cut_its_answer(calls: Any) -> None:
    with pytest.raises(Cut):
        read_chunk(json.dumps({"choices": [{"delta": {"tool_calls": calls}}]}).encode())
