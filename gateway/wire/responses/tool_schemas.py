"""Tools of `/v1/responses` as JSON Schema: what may be offered and chosen, calls and outputs."""

from gateway.wire.bodies.tools import MODE, NAME_SCHEMA, TOOLS_MAX
from gateway.wire.json_schema import (
    ANYTHING,
    BOOLEAN,
    STRING,
    Schema,
    array,
    const,
    either,
    objects,
    one_of,
    part,
    text,
)
from gateway.wire.responses.past_calls import CALL_ID_MAX
from gateway.wire.responses.tools import SEARCH, SHELL

CALL_ID = text(maxLength=CALL_ID_MAX)
CALL: dict[str, Schema] = {"call_id": CALL_ID, "name": STRING, "namespace": STRING}
ACTION: Schema = {"type": "object"}


def _function(name: Schema) -> Schema:
    return part(
        {
            "type": const("function"),
            "name": name,
            "description": STRING,
            "parameters": ANYTHING,
            "strict": BOOLEAN,
            "defer_loading": BOOLEAN,
        },
        *("description", "parameters", "strict", "defer_loading"),
    )


FORMAT = either(
    part({"type": const("text")}),
    part({"type": const("grammar"), "syntax": STRING, "definition": STRING}),
)


def _custom(name: Schema) -> Schema:
    fields: dict[str, Schema] = {
        "type": const("custom"),
        "name": name,
        "description": STRING,
        "format": FORMAT,
        "defer_loading": BOOLEAN,
    }
    return part(fields, "description", "format", "defer_loading")


FUNCTION = _function(NAME_SCHEMA)
SEARCHES: Schema = objects({"type": text(pattern=f"^{SEARCH}")})
TOOL = either(
    FUNCTION,
    _custom(NAME_SCHEMA),
    part(
        {
            "type": const("namespace"),
            "name": STRING,
            "description": STRING,
            "tools": array(either(_function(STRING), _custom(STRING), SEARCHES)),
        },
        "description",
    ),
    part({"type": const(SHELL)}),
    SEARCHES,
)
SHOWN = either(
    objects(
        {
            "type": const("function"),
            "name": STRING,
            "description": STRING,
            "parameters": ANYTHING,
            "strict": BOOLEAN,
        },
        *("description", "parameters", "strict"),
    ),
    objects({"type": one_of(("custom", "namespace", SHELL))}),
)
NAMED = either(
    part(
        {"type": one_of(("function", "custom")), "name": STRING, "namespace": STRING}, "namespace"
    ),
    part({"type": const(SHELL)}),
)
TOOLS = array(TOOL, maxItems=TOOLS_MAX)
CHOICE = either(
    one_of(("none", "auto", "required")),
    NAMED,
    part({"type": const("allowed_tools"), "mode": MODE.schema, "tools": array(NAMED, minItems=1)}),
)


def calls(booked: dict[str, Schema], content: Schema) -> tuple[Schema, ...]:
    """Items that a caller sends back; `content` is that of an output."""
    beside = ("namespace", *booked)
    shell: dict[str, Schema] = {"type": const("local_shell_call"), "action": ACTION}
    output = {"output": content, "name": STRING} | booked
    return (
        part(booked | CALL | {"type": const("function_call"), "arguments": STRING}, *beside),
        part(booked | CALL | {"type": const("custom_tool_call"), "input": STRING}, *beside),
        part(booked | shell | {"call_id": CALL_ID}, *booked),
        part(
            output
            | {
                "type": one_of(("function_call_output", "custom_tool_call_output")),
                "call_id": CALL_ID,
            },
            "name",
            *booked,
        ),
        part(
            output | {"type": const("local_shell_call_output"), "call_id": CALL_ID, "id": CALL_ID},
            *("call_id", "name", *booked),
        ),
        part(
            booked
            | {
                "type": const("additional_tools"),
                "role": one_of(("developer", "system")),
                "tools": array(TOOL),
            },
            *booked,
        ),
    )


def called(status: Schema) -> tuple[Schema, ...]:
    """Items that an answer has."""
    item = {"id": STRING, "status": status, "call_id": STRING}
    call = item | {"name": STRING, "namespace": STRING}
    return (
        objects(call | {"type": const("function_call"), "arguments": STRING}, "namespace"),
        objects(call | {"type": const("custom_tool_call"), "input": STRING}, "namespace"),
        objects(item | {"type": const("local_shell_call"), "action": ACTION}),
    )
