"""Calls of tools that an earlier answer made, and what they answered, as chat's messages have
them; the names of functions are those that `tools` gives to what the caller offers."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gateway.errors import ApiError, bad_request
from gateway.wire.bodies.checks import an_object, string
from gateway.wire.bodies.rules import TEXT as TEXT_RULE
from gateway.wire.bodies.rules import Rule, needed, object_of, text_of, unchecked
from gateway.wire.json_schema import STRING, Schema, const
from gateway.wire.json_schema import one_of as enumerated
from gateway.wire.responses.parts import BOOKED, INPUT_IMAGE, INPUT_TEXT, chat_content, content_of
from gateway.wire.responses.tools import SHELL, TEXT, Tool

Json = dict[str, Any]

CALL_ID_MAX = 64
CALLS = ("function_call", "custom_tool_call", "local_shell_call")
OUTPUTS = tuple(f"{kind}_output" for kind in CALLS)
ARGUMENTS = {"function_call": "arguments", "custom_tool_call": "input"}
SHOWN_BELOW = "The output is the image that follows."
"""What answers a call whose output is nothing but an image."""
ACTION: Schema = {"type": "object"}
CALL_ID = needed(text_of(CALL_ID_MAX))


def _call(kind: str, arguments: Rule, name: Rule) -> Rule:
    """The id of the call is checked last."""
    field = ARGUMENTS[kind]
    fields = BOOKED | {"call_id": CALL_ID, "name": name, "namespace": TEXT_RULE}
    fields |= {"type": unchecked(const(kind)), field: arguments}
    first = ("id", "status", "namespace", "name", "type", field)
    return object_of(fields, "call_id", "name", "type", field, first=first)


FUNCTION_CALLS = {
    "function_call": _call("function_call", unchecked(STRING), unchecked(STRING)),
    "custom_tool_call": _call("custom_tool_call", TEXT_RULE, unchecked(STRING)),
}
NAMESPACE_CALLS = {
    "function_call": _call("function_call", unchecked(STRING), TEXT_RULE),
    "custom_tool_call": _call("custom_tool_call", TEXT_RULE, TEXT_RULE),
}
SHELL_CALL = object_of(
    BOOKED
    | {
        "type": unchecked(const(CALLS[2])),
        "action": Rule(an_object, ACTION),
        "call_id": CALL_ID,
    },
    *("type", "action", "call_id"),
)
OUTPUT_FIELDS = {"output": content_of(INPUT_TEXT, INPUT_IMAGE), "name": TEXT_RULE} | BOOKED
OUTPUT = object_of(
    OUTPUT_FIELDS | {"type": unchecked(enumerated(OUTPUTS[:2])), "call_id": CALL_ID},
    *("output", "type", "call_id"),
    first=("id", "status", "name"),
)
SHELL_OUTPUT = object_of(
    OUTPUT_FIELDS
    | {
        "type": unchecked(const(OUTPUTS[2])),
        "call_id": unchecked(CALL_ID.schema),
        "id": Rule(string, CALL_ID.schema),
    },
    *("output", "type"),
    first=("id", "status", "name"),
)
SCHEMAS = tuple(
    rule.schema for rule in (*FUNCTION_CALLS.values(), SHELL_CALL, OUTPUT, SHELL_OUTPUT)
)


def past_call(name: str, item: Mapping[str, Any]) -> Json:
    for field, rule in BOOKED.items():
        if item.get(field) is not None:
            rule.check(f"{name}.{field}", item[field])
    function = _command(name, item) if item["type"] == CALLS[2] else _function(name, item)
    return {"id": item["call_id"], "type": "function", "function": function}


def _function(name: str, item: Mapping[str, Any]) -> Json:
    kind, namespace = item["type"], item.get("namespace")
    (FUNCTION_CALLS if namespace is None else NAMESPACE_CALLS)[kind].check(name, item)
    arguments, function_name = item.get(ARGUMENTS[kind]), item.get("name")
    if namespace is not None:
        function_name = Tool(kind, str(function_name), namespace).chat_name
    if kind == "custom_tool_call":
        arguments = msgspec.json.encode({TEXT: arguments}).decode()
    return {"name": function_name, "arguments": arguments}


def _command(name: str, item: Mapping[str, Any]) -> Json:
    SHELL_CALL.check(name, item)
    arguments = {key: value for key, value in item["action"].items() if key != "type"}
    return {"name": SHELL, "arguments": msgspec.json.encode(arguments).decode()}


def past_output(name: str, item: Mapping[str, Any]) -> tuple[Json, list[tuple[Json, str]]]:
    """The message that answers the call, and images with their places: chat has none there."""
    call_id = _call_id(item)
    if item["type"] == OUTPUTS[2]:
        SHELL_OUTPUT.check(name, item)
        CALL_ID.check(f"{name}.call_id", call_id)
    else:
        OUTPUT.check(name, item)
    output = chat_content(item["output"])
    images: list[tuple[Json, str]] = []
    if isinstance(output, list):
        places = enumerate(output)
        images = [(p, f"{name}.output[{n}]") for n, p in places if p["type"] == "image_url"]
        output = [part for part in output if part["type"] != "image_url"]
        if images and not output:
            output = SHOWN_BELOW
    return {"role": "tool", "tool_call_id": call_id, "content": output}, images


def _call_id(item: Mapping[str, Any]) -> object:
    """OpenAI's document has the `id` of a local shell's output name its call."""
    if item.get("type") == OUTPUTS[2] and item.get("call_id") is None:
        return item.get("id")
    return item.get("call_id")


def require_answers(items: Sequence[Mapping[str, Any]]) -> None:
    """Every call is answered and every answer has a call, by their `call_id`."""
    open_calls: dict[object, int] = {}
    for index, item in enumerate(items):
        call_id = _call_id(item)
        if item.get("type") in CALLS:
            open_calls[call_id] = index
        elif item.get("type") in OUTPUTS and open_calls.pop(call_id, None) is None:
            raise _unmatched("call", f"function call output with call_id {call_id}", index)
    for call_id, index in open_calls.items():
        raise _unmatched("output", f"function call {call_id}", index)


def _unmatched(lacking: str, what: str, index: int) -> ApiError:
    message = f"No tool {lacking} found for {what}."
    return bad_request(message, f"input[{index}].call_id", "invalid_value")
