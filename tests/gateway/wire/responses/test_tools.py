"""Tools that chat does not know: told to a model as functions, and to the caller by its names."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.call.request import GeneratingRequest
from gateway.wire.bodies.conversation import Conversation
from gateway.wire.bodies.tools import NAME, NAME_MAX
from gateway.wire.responses.body import parse_response
from gateway.wire.responses.tools import Tool
from tests.gateway.wire.bodies import refused
from tests.gateway.wire.responses.calls import calls, streamed, whole

GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: WORD"}
PATCH = {"type": "custom", "name": "apply_patch", "description": "Patches.", "format": GRAMMAR}
LOOK = {"type": "function", "name": "look", "parameters": {"type": "object"}}
AGENTS = {
    "type": "namespace",
    "name": "agents",
    "description": "Of agents.",
    "tools": [LOOK | {"description": "Looks."}, PATCH],
}
SHELL, SEARCH = {"type": "local_shell"}, {"type": "web_search", "external_web_access": True}
TOOLS = [LOOK, PATCH, SHELL, SEARCH, AGENTS]
INNER = ["look", "apply_patch", "local_shell", "agents__look", "agents__apply_patch"]


def parsed(**changes: Any) -> tuple[GeneratingRequest, Conversation]:
    body = {"model": "tale", "input": "Go.", "tools": TOOLS} | changes
    request = parse_response(json.dumps(body).encode())
    assert isinstance(request.payload, Conversation)
    return request, request.payload


def names(wanted: Conversation) -> list[str]:
    return [tool["function"]["name"] for tool in wanted.tools]


def test_every_tool_is_a_function_to_the_model_but_for_the_search() -> None:
    _, wanted = parsed()
    assert names(wanted) == INNER
    _, patch, shell, look, _ = (tool["function"] for tool in wanted.tools)
    assert patch["parameters"]["required"] == ["input"]
    assert "start: WORD" in patch["parameters"]["properties"]["input"]["description"]
    assert shell["parameters"]["required"] == ["command"]
    assert look["description"] == "Of agents.\n\nLooks."


def test_tools_that_are_told_of_in_the_middle_are_on_offer() -> None:
    item = {"type": "additional_tools", "role": "developer", "tools": [AGENTS]}
    _, wanted = parsed(tools=None, input=[item, {"role": "user", "content": "Go."}])
    assert names(wanted) == INNER[3:]


GIVEN = [
    ("look", '{"a": 1}', {"type": "function_call", "name": "look", "arguments": '{"a": 1}'}),
    (
        "apply_patch",
        '{"input": "*** Begin"}',
        {"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin"},
    ),
    (
        "local_shell",
        '{"command": ["ls"]}',
        {
            "type": "local_shell_call",
            "action": {"type": "exec", "command": ["ls"], "env": {}},
        },
    ),
    (
        "agents__look",
        "{}",
        {"type": "function_call", "namespace": "agents", "name": "look", "arguments": "{}"},
    ),
    (
        "agents__apply_patch",
        '{"input": "x"}',
        {"type": "custom_tool_call", "namespace": "agents", "name": "apply_patch", "input": "x"},
    ),
]


@pytest.mark.parametrize(("name", "arguments", "item"), GIVEN, ids=INNER)
def test_call_is_told_by_the_callers_name_and_comes_back_by_the_models(
    name: str, arguments: str, item: dict[str, Any]
) -> None:
    request, wanted = parsed()
    pieces = [calls(0, "", name=name), calls(0, arguments[:5]), calls(0, arguments[5:])]
    [told] = whole(request.form, pieces)["output"]
    assert item.items() <= told.items()
    *_, done, completed = streamed(request.form, pieces)
    assert done["type"] == "response.output_item.done"
    assert item.items() <= done["item"].items()
    assert completed["response"]["output"] == [done["item"]]
    answered = {"type": f"{told['type']}_output", "call_id": told["call_id"], "output": "Done."}
    _, wanted = parsed(input=[{"role": "user", "content": "Go."}, done["item"], answered])
    [call] = wanted.messages[1]["tool_calls"]
    assert call["function"]["name"] == name
    back, sent = json.loads(call["function"]["arguments"]), json.loads(arguments)
    assert back == (sent | {"env": {}} if name == "local_shell" else sent)


def test_text_of_a_custom_tool_is_told_by_its_own_events() -> None:
    pieces = [calls(0, '{"input": "a\\nb"}', name="apply_patch")]
    found = {event["type"]: event for event in streamed(parsed()[0].form, pieces)}
    assert found["response.custom_tool_call_input.delta"]["delta"] == "a\nb"
    assert found["response.custom_tool_call_input.done"]["input"] == "a\nb"
    assert "response.function_call_arguments.delta" not in found


def test_answer_repeats_the_tools_that_were_on_offer() -> None:
    shown = whole(parsed()[0].form, [])["tools"]
    assert [tool["type"] for tool in shown] == ["function", "custom", "local_shell", "namespace"]


@pytest.mark.parametrize(
    ("choice", "name"),
    [
        ({"type": "custom", "name": "apply_patch"}, "apply_patch"),
        ({"type": "local_shell"}, "local_shell"),
        ({"type": "function", "name": "look", "namespace": "agents"}, "agents__look"),
    ],
)
def test_choice_is_of_the_function_that_stands_for_it(choice: dict[str, Any], name: str) -> None:
    expected = {"type": "function", "function": {"name": name}}
    assert parsed(tool_choice=choice)[1].tool_choice == expected
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [choice]}
    [found] = parsed(tool_choice=allowed)[1].tool_choice["allowed_tools"]["tools"]
    assert found == expected


def test_images_of_an_output_follow_the_outputs() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
    image = {"type": "input_image", "image_url": "data:image/png;base64,aa"}
    shown = {"type": "function_call_output", "call_id": "c", "output": [image]}
    _, wanted = parsed(input=[{"role": "user", "content": "Go."}, call, shown])
    assert [message["role"] for message in wanted.full_messages] == [
        "user",
        "assistant",
        "tool",
        "user",
    ]
    assert wanted.images == ("input[2].output[0]",)


def test_refusal_names_the_tool_in_its_namespace() -> None:
    inner = [LOOK, LOOK]
    body = {"model": "m", "input": "a", "tools": [SEARCH, AGENTS | {"tools": inner}]}
    assert refused(parse_response, body).param == "tools[1].tools[1].name"
    nested = AGENTS | {"tools": [AGENTS]}
    assert refused(parse_response, body | {"tools": [nested]}).param == "tools[0].tools[0].type"


def test_what_an_agent_says_of_itself_changes_nothing() -> None:
    said = {
        "client_metadata": {"a": "b"},
        "reasoning": {"summary": "auto", "context": "all_turns"},
        "include": ["reasoning.encrypted_content"],
        "store": False,
    }
    assert parsed(**said)[1] == parsed()[1]


@given(st.text(min_size=1, max_size=80), st.text(min_size=1, max_size=80), st.text(max_size=3))
def test_name_in_a_namespace_is_a_functions_and_tells_namespaces_apart(
    namespace: str, name: str, more: str
) -> None:
    found = Tool("function", name, namespace).chat_name
    assert NAME.fullmatch(found) and len(found) <= NAME_MAX
    assert found == Tool("custom", name, namespace).chat_name
    longer = Tool("function", f"{name}{more}", f"{namespace}{'x' * NAME_MAX}").chat_name
    assert found != longer
