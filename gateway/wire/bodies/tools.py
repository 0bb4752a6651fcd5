"""Tools as a conversation names them: the functions a model may call, which of them it has to, and
the calls that an earlier answer made. Raises ApiError 400 naming the parameter."""

import re
from collections.abc import Sequence
from typing import Annotated, Any

from gateway.errors import ApiError, bad_request
from gateway.wire.bodies.checks import (
    integer,
    invalid_type,
    missing,
    one_of,
    require_known,
    schema_size,
    string,
    text_up_to,
)
from gateway.wire.bodies.rules import SWITCH, TEXT, Rule, needed, object_of, own, the, word_of
from gateway.wire.json_schema import (
    ANYTHING,
    STRING,
    array,
    between,
    either,
    part,
    text,
)

TOOLS_MAX = 128
NAME_MAX = 64
NAME = re.compile(r"[a-zA-Z0-9_-]+")

Json = dict[str, Any]
INDEX, INDEX_MAX = "index", 2**31
"""The number of a call in a stream: clients that put one together send it back."""


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
    fields = _object(name, tool)
    KIND.check(f"{name}.type", fields.get("type"))
    require_known(name, fields, "type", "function")
    FUNCTION.check(f"{name}.function", fields.get("function"))


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
    (NAMED if value["type"] == "function" else CHOSEN).check(name, value)


def _several(name: str, value: object) -> None:
    if not isinstance(value, list) or not value:
        raise invalid_type(name, "a non-empty array of objects", value)
    for index, tool in enumerate(value):
        NAMED.check(f"{name}[{index}]", tool)


def require_offered(tools: Sequence[Json] | None, choice: str | Json | None) -> None:
    """Raises ApiError 400 where a choice among tools is said and there are none, or not that."""
    if choice is None:
        return
    names = {tool["function"]["name"] for tool in tools or ()}
    if not names and choice not in ("none", "auto"):
        raise _without_tools("tool_choice")
    for where, name in _chosen(choice):
        if name not in names:
            message = f"Invalid value for '{where}': the tool '{name}' is not in 'tools'."
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
    tools = choice["allowed_tools"]["tools"]
    return [(where.format(n), tool["function"]["name"]) for n, tool in enumerate(tools)]


def tool_calls(name: str, value: object) -> None:
    """The check of the calls that an assistant's message made."""
    if not isinstance(value, list) or not value:
        raise invalid_type(name, "a non-empty array of objects", value)
    ids = set[str]()
    for index, call in enumerate(value):
        where = f"{name}[{index}]"
        fields = _object(where, call, "id", "type", "function", INDEX)
        if fields.get(INDEX) is not None:
            integer(0, INDEX_MAX)(f"{where}.{INDEX}", fields[INDEX])
        if fields.get("id") is None:
            raise missing(f"{where}.id")
        string(f"{where}.id", fields["id"])
        if fields["id"] in ids:
            message = f"Invalid '{where}.id': two calls have the id '{fields['id']}'."
            raise bad_request(message, f"{where}.id", "invalid_value")
        ids.add(fields["id"])
        KIND.check(f"{where}.type", fields.get("type"))
        CALLED.check(f"{where}.function", fields.get("function"))


def _object(name: str, value: object, *names: str) -> Json:
    if value is None:
        raise missing(name)
    if not isinstance(value, dict):
        raise invalid_type(name, "an object", value)
    if names:
        require_known(name, value, *names)
    return value


NAME_SCHEMA = text(pattern=f"^{NAME.pattern}$", maxLength=NAME_MAX)
FUNCTION_NAME = Rule(function_name, NAME_SCHEMA)
FUNCTION = object_of(
    {
        "name": FUNCTION_NAME,
        "description": TEXT,
        "strict": SWITCH,
        "parameters": Rule(schema_size, ANYTHING),
    },
    "name",
)
KIND = the("function")
TOOL = part({"type": KIND.schema, "function": FUNCTION.schema})
CALLED = object_of({"name": FUNCTION_NAME, "arguments": needed(TEXT)}, "name", "arguments")
TOOL_CALL = part(
    {
        "id": STRING,
        "type": KIND.schema,
        "function": CALLED.schema,
        INDEX: between(0, INDEX_MAX, "integer"),
    },
    INDEX,
)
TOOL_CALLS = array(TOOL_CALL, minItems=1)
ONE = object_of({"name": FUNCTION_NAME}, "name")
NAMED = object_of({"type": KIND, "function": ONE}, "type", "function")
MODE = word_of("auto", "required")
ALLOWED = object_of(
    {"mode": MODE, "tools": Rule(_several, array(NAMED.schema, minItems=1))}, "mode", "tools"
)
CHOSEN = object_of(
    {"type": the("allowed_tools"), "allowed_tools": ALLOWED}, "type", "allowed_tools"
)
TOOL_CHOICE = either(word_of("none", "auto", "required").schema, NAMED.schema, CHOSEN.schema)
Tools = Annotated[list[Json], own(tools, array(TOOL, maxItems=TOOLS_MAX))]
ToolChoice = Annotated[str | Json, own(tool_choice, TOOL_CHOICE)]
