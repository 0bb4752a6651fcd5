"""Calls of tools that an earlier answer made, and what they answered, as chat's messages have
them; the names of functions are those that `tools` gives to what the caller offers."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gateway.errors import ApiError, bad_request
from gateway.wire.bodies.checks import invalid_type, missing, require_known, string, text_up_to
from gateway.wire.responses.parts import bookkeeping, part
from gateway.wire.responses.tools import SHELL, TEXT, Tool

Json = dict[str, Any]

CALL_ID_MAX = 64
CALLS = ("function_call", "custom_tool_call", "local_shell_call")
OUTPUTS = tuple(f"{kind}_output" for kind in CALLS)
GIVEN = {"function_call": "arguments", "custom_tool_call": "input"}
SHOWN_BELOW = "The output is the image that follows."
"""What answers a call whose output is nothing but an image."""


def past_call(name: str, item: Mapping[str, Any]) -> Json:
    bookkeeping(name, item)
    function = _command(name, item) if item["type"] == CALLS[2] else _function(name, item)
    return {"id": _call_id(name, item), "type": "function", "function": function}


def _function(name: str, item: Mapping[str, Any]) -> Json:
    kind = item["type"]
    field = GIVEN[kind]
    require_known(name, item, "type", "id", "status", "call_id", "name", "namespace", field)
    arguments, function_name, namespace = item.get(field), item.get("name"), item.get("namespace")
    if namespace is not None:
        string(f"{name}.namespace", namespace)
        string(f"{name}.name", function_name)
        function_name = Tool(kind, str(function_name), namespace).chat_name
    if field == TEXT:
        string(f"{name}.{field}", arguments)
        arguments = msgspec.json.encode({TEXT: arguments}).decode()
    return {"name": function_name, "arguments": arguments}


def _command(name: str, item: Mapping[str, Any]) -> Json:
    require_known(name, item, "type", "id", "status", "call_id", "action")
    action = item.get("action")
    if not isinstance(action, dict):
        raise invalid_type(f"{name}.action", "an object", action)
    arguments = {key: value for key, value in action.items() if key != "type"}
    return {"name": SHELL, "arguments": msgspec.json.encode(arguments).decode()}


def past_output(name: str, item: Mapping[str, Any]) -> tuple[Json, list[tuple[Json, str]]]:
    """The message that answers the call, and images with their places: chat has none there."""
    require_known(name, item, "type", "id", "status", "call_id", "output", "name")
    bookkeeping(name, item)
    if item.get("name") is not None:
        string(f"{name}.name", item["name"])
    output = item.get("output")
    if output is None:
        raise missing(f"{name}.output")
    images: list[tuple[Json, str]] = []
    if isinstance(output, list):
        places = [f"{name}.output[{index}]" for index in range(len(output))]
        parts = [
            part(at, each, ("input_text", "input_image"))
            for at, each in zip(places, output, strict=True)
        ]
        images = [(p, at) for p, at in zip(parts, places, strict=True) if p["type"] == "image_url"]
        output = [p for p in parts if p["type"] != "image_url"]
        if images and not output:
            output = SHOWN_BELOW
    elif not isinstance(output, str):
        raise invalid_type(f"{name}.output", "a string or an array of parts", output)
    message = {"role": "tool", "tool_call_id": _call_id(name, item), "content": output}
    return message, images


def _call_id(name: str, item: Mapping[str, Any]) -> str:
    """OpenAI's document has the `id` of a local shell's output name its call."""
    call_id = _answered(item)
    if call_id is None:
        raise missing(f"{name}.call_id")
    text_up_to(CALL_ID_MAX)(f"{name}.call_id", call_id)
    return str(call_id)


def _answered(item: Mapping[str, Any]) -> object:
    if item.get("type") == OUTPUTS[2] and item.get("call_id") is None:
        return item.get("id")
    return item.get("call_id")


def require_answers(items: Sequence[Mapping[str, Any]]) -> None:
    """Every call is answered and every answer has a call, by their `call_id`."""
    open_calls: dict[object, int] = {}
    for index, item in enumerate(items):
        call_id = _answered(item)
        if item.get("type") in CALLS:
            open_calls[call_id] = index
        elif item.get("type") in OUTPUTS and open_calls.pop(call_id, None) is None:
            raise _unmatched("call", f"function call output with call_id {call_id}", index)
    for call_id, index in open_calls.items():
        raise _unmatched("output", f"function call {call_id}", index)


def _unmatched(lacking: str, what: str, index: int) -> ApiError:
    message = f"No tool {lacking} found for {what}."
    return bad_request(message, f"input[{index}].call_id", "invalid_value")
