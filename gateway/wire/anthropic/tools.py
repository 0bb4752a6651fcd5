"""The tools of `/v1/messages`, and the choice among them, as chat has them."""

from typing import Any

from gateway.errors import bad_request
from gateway.wire.anthropic.blocks import CACHE
from gateway.wire.anthropic.hints import EFFORTS
from gateway.wire.bodies.checks import an_object
from gateway.wire.bodies.rules import (
    SWITCH,
    elsewhere,
    object_of,
    the,
    unchecked,
    union_of,
    variant,
    word_of,
)
from gateway.wire.bodies.tools import NAME_SCHEMA, TOOLS_MAX
from gateway.wire.json_schema import ANYTHING, BOOLEAN, STRING, array, const

Json = dict[str, Any]

HINTS = ("eager_input_streaming", "defer_loading")
"""Whether the input of a tool is streamed piece by piece: it is. Whether a model learns of the tool
only once it has searched for it: it learns of it at once."""


def _own_kind(name: str, kind: object) -> None:
    if kind not in (None, "custom"):
        message = (
            f"Unsupported value for '{name}': this service has no tools of its own, only the"
            " caller's ('custom')."
        )
        raise bad_request(message, name, "unsupported_value")


FUNCTION = object_of(
    {
        "type": unchecked(const("custom")),
        "name": unchecked(NAME_SCHEMA),
        "description": unchecked(STRING),
        "input_schema": elsewhere(ANYTHING),
        "strict": unchecked(BOOLEAN),
        "cache_control": CACHE,
        **dict.fromkeys(HINTS, SWITCH),
    },
    *("name", "input_schema"),
    first=(*HINTS, "cache_control"),
)
TOOLS = array(FUNCTION.schema, maxItems=TOOLS_MAX)


def chat_tools(tools: Any) -> Any:
    """Raises ApiError 400 for tools that Anthropic runs itself."""
    if not isinstance(tools, list):
        return tools
    return [_function(f"tools[{index}]", tool) for index, tool in enumerate(tools)]


def _function(name: str, tool: Any) -> Json:
    an_object(name, tool)
    _own_kind(f"{name}.type", tool.get("type"))
    FUNCTION.check(name, tool)
    function = {field: tool.get(field) for field in ("name", "description", "strict")}
    return {"type": "function", "function": function | {"parameters": tool["input_schema"]}}


ALONE = {"disable_parallel_tool_use": SWITCH}
CHOICE = union_of(
    variant(("auto", "any"), ALONE),
    variant("tool", {"name": unchecked(NAME_SCHEMA)} | ALONE, "name"),
    variant("none", {}),
)


def chat_tool_choice(choice: Any) -> Json:
    """`tool_choice` and `parallel_tool_calls` of chat."""
    if choice is None:
        return {}
    CHOICE.check("tool_choice", choice)
    kind = choice["type"]
    chat_choice: Any = {"any": "required"}.get(kind, kind)
    if kind == "tool":
        chat_choice = {"type": "function", "function": {"name": choice.get("name")}}
    alone = choice.get("disable_parallel_tool_use")
    return {"tool_choice": chat_choice} | ({"parallel_tool_calls": False} if alone else {})


FORMAT = object_of({"type": the("json_schema"), "schema": unchecked(ANYTHING)}, "type", "schema")
OUTPUT = object_of({"format": FORMAT, "effort": word_of(*EFFORTS)}, first=("effort",))


def chat_format(config: Any) -> Json:
    """`response_format` of chat, from `output_config`."""
    if config is None:
        return {}
    OUTPUT.check("output_config", config)
    form = config.get("format")
    if form is None:
        return {}
    schema = {"name": "answer", "schema": form.get("schema"), "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}
