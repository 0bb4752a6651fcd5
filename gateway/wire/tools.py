"""Tools as a conversation names them: the functions a model may call, which of them it has to, and
the calls that an earlier answer made. Raises ApiError 400 naming the parameter."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gateway.errors import ApiError, bad_request
from gateway.wire.checks import (
    boolean,
    invalid_type,
    missing,
    one_of,
    require_known,
    schema_size,
    string,
    text_up_to,
)

TOOLS_MAX = 128
NAME_MAX = 64
NAME = re.compile(r"[a-zA-Z0-9_-]+")

Json = dict[str, Any]
OFFERING = ("tools", "tool_choice", "parallel_tool_calls")


def tools(name: str, value: object) -> None:
    """The check of the functions on offer; custom tools are no functions, and refused."""
    if not isinstance(value, list):
        raise invalid_type(name, "an array of objects", value)
    if len(value) > TOOLS_MAX:
        raise bad_request(
            f"Invalid '{name}': array too long. Expected an array with maximum length {TOOLS_MAX}, "
            f"but got an array with length {len(value)} instead.",
            name,
            "array_above_max_length",
        )
    for index, tool in enumerate(value):
        _tool(f"{name}[{index}]", tool)
    _different(name, [tool["function"]["name"] for tool in value])


def _tool(name: str, tool: object) -> None:
    found = _object(name, tool)
    one_of("function")(f"{name}.type", found.get("type"))
    require_known(name, found, "type", "function")
    inner = f"{name}.function"
    said = _object(inner, found.get("function"), "name", "description", "parameters", "strict")
    function_name(f"{inner}.name", said.get("name"))
    for field, check in (("description", string), ("strict", boolean)):
        if said.get(field) is not None:
            check(f"{inner}.{field}", said[field])
    if said.get("parameters") is not None:
        schema_size(f"{inner}.parameters", said["parameters"])


def function_name(name: str, value: object) -> None:
    """Letters, digits, underscores and dashes, as OpenAI has it."""
    if value is None:
        raise missing(name)
    text_up_to(NAME_MAX)(name, value)
    if not NAME.fullmatch(str(value)):
        raise bad_request(
            f"Invalid '{name}': string does not match pattern. Expected a string that matches the"
            " pattern '^[a-zA-Z0-9_-]+$'.",
            name,
            "invalid_value",
        )


def _different(name: str, names: Sequence[str]) -> None:
    for index, each in enumerate(names):
        if each in names[:index]:
            where = f"{name}[{index}].function.name"
            raise bad_request(
                f"Invalid '{where}': two tools are called '{each}'.", where, "invalid_value"
            )


def tool_choice(name: str, value: object) -> None:
    """The check of its shape; whether the tools exist is seen with them (`require_offered`)."""
    if not isinstance(value, dict):
        one_of("none", "auto", "required")(name, value)
        return
    one_of("function", "allowed_tools")(f"{name}.type", value.get("type"))
    if value["type"] == "function":
        require_known(name, value, "type", "function")
        _named(f"{name}.function", value.get("function"))
        return
    require_known(name, value, "type", "allowed_tools")
    inner = f"{name}.allowed_tools"
    allowed = _object(inner, value.get("allowed_tools"), "mode", "tools")
    one_of("auto", "required")(f"{inner}.mode", allowed.get("mode"))
    if not isinstance(allowed.get("tools"), list) or not allowed["tools"]:
        raise invalid_type(f"{inner}.tools", "a non-empty array of objects", allowed.get("tools"))
    for index, tool in enumerate(allowed["tools"]):
        said = _object(f"{inner}.tools[{index}]", tool, "type", "function")
        one_of("function")(f"{inner}.tools[{index}].type", said.get("type"))
        _named(f"{inner}.tools[{index}].function", said.get("function"))


def _named(name: str, value: object) -> None:
    function_name(f"{name}.name", _object(name, value, "name").get("name"))


def require_offered(fields: Mapping[str, Any]) -> None:
    """Raises ApiError 400 where a choice among tools is said and there are none, or not that."""
    if fields.keys().isdisjoint(OFFERING):
        return
    offered = {tool["function"]["name"] for tool in fields.get("tools") or ()}
    choice = fields.get("tool_choice")
    if not offered:
        if choice not in (None, "none", "auto"):
            raise _without_tools("tool_choice")
        if fields.get("parallel_tool_calls") is False:
            raise _without_tools("parallel_tool_calls")
    for where, chosen in _chosen(choice):
        if chosen not in offered:
            message = f"Invalid value for '{where}': the tool '{chosen}' is not in 'tools'."
            raise bad_request(message, where, "invalid_value")


def _without_tools(name: str) -> ApiError:
    message = f"Invalid value for '{name}': '{name}' is only allowed when 'tools' are specified."
    return bad_request(message, name, "invalid_value")


def _chosen(choice: object) -> list[tuple[str, str]]:
    """Where a choice names a tool, and which."""
    if not isinstance(choice, dict):
        return []
    if choice["type"] == "function":
        return [("tool_choice.function.name", choice["function"]["name"])]
    where = "tool_choice.allowed_tools.tools[{}].function.name"
    listed = choice["allowed_tools"]["tools"]
    return [(where.format(n), tool["function"]["name"]) for n, tool in enumerate(listed)]


def tool_calls(name: str, value: object) -> None:
    """The check of the calls that an assistant's message made."""
    if not isinstance(value, list) or not value:
        raise invalid_type(name, "a non-empty array of objects", value)
    ids = set[str]()
    for index, call in enumerate(value):
        where = f"{name}[{index}]"
        found = _object(where, call, "id", "type", "function")
        if found.get("id") is None:
            raise missing(f"{where}.id")
        string(f"{where}.id", found["id"])
        if found["id"] in ids:
            message = f"Invalid '{where}.id': two calls have the id '{found['id']}'."
            raise bad_request(message, f"{where}.id", "invalid_value")
        ids.add(found["id"])
        one_of("function")(f"{where}.type", found.get("type"))
        said = _object(f"{where}.function", found.get("function"), "name", "arguments")
        function_name(f"{where}.function.name", said.get("name"))
        if said.get("arguments") is None:
            raise missing(f"{where}.function.arguments")
        string(f"{where}.function.arguments", said["arguments"])


def _object(name: str, value: object, *known: str) -> Json:
    if value is None:
        raise missing(name)
    if not isinstance(value, dict):
        raise invalid_type(name, "an object", value)
    if known:
        require_known(name, value, *known)
    return value
