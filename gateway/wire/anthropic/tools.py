"""The tools of `/v1/messages`, and the choice among them, as chat has them."""

from typing import Any

from gateway.errors import bad_request
from gateway.wire.anthropic.hints import EFFORTS
from gateway.wire.anthropic.turns import CACHE
from gateway.wire.bodies.checks import boolean, invalid_type, missing, one_of, require_known

Json = dict[str, Any]

TOOL = ("type", "name", "description", "input_schema", "strict", "cache_control")
OFFERED = ("eager_input_streaming", "defer_loading")
"""Whether the input of a tool is told piece by piece, which it is, and whether a model is told of
the tool only once it has searched for it: it is told at once."""


def chat_tools(tools: object) -> Any:
    """Raises ApiError 400 for tools that Anthropic runs itself."""
    if not isinstance(tools, list):
        return tools
    return [_function(f"tools[{index}]", tool) for index, tool in enumerate(tools)]


def _function(name: str, tool: object) -> Json:
    if not isinstance(tool, dict):
        raise invalid_type(name, "an object", tool)
    if tool.get("type") not in (None, "custom"):
        message = (
            f"Unsupported value for '{name}.type': this service has no tools of its own, only the"
            " caller's ('custom')."
        )
        raise bad_request(message, f"{name}.type", "unsupported_value")
    require_known(name, tool, *TOOL, *OFFERED)
    for hint in OFFERED:
        if tool.get(hint) is not None:
            boolean(f"{name}.{hint}", tool[hint])
    if tool.get("cache_control") is not None:
        CACHE.check(f"{name}.cache_control", tool["cache_control"])
    if tool.get("input_schema") is None:
        raise missing(f"{name}.input_schema")
    function = {field: tool.get(field) for field in ("name", "description", "strict")}
    return {"type": "function", "function": function | {"parameters": tool["input_schema"]}}


def chat_tool_choice(choice: object) -> Json:
    """`tool_choice` and `parallel_tool_calls` of chat."""
    if choice is None:
        return {}
    if not isinstance(choice, dict):
        raise invalid_type("tool_choice", "an object", choice)
    one_of("auto", "any", "tool", "none")("tool_choice.type", choice.get("type"))
    kind = choice["type"]
    fields = {"tool": ("name", "disable_parallel_tool_use"), "none": ()}
    require_known("tool_choice", choice, "type", *fields.get(kind, ("disable_parallel_tool_use",)))
    chat_choice: Any = {"any": "required"}.get(kind, kind)
    if kind == "tool":
        chat_choice = {"type": "function", "function": {"name": choice.get("name")}}
    alone = choice.get("disable_parallel_tool_use")
    if alone is not None:
        boolean("tool_choice.disable_parallel_tool_use", alone)
    return {"tool_choice": chat_choice} | ({"parallel_tool_calls": False} if alone else {})


def chat_format(config: object) -> Json:
    """`response_format` of chat, from `output_config`."""
    if config is None:
        return {}
    if not isinstance(config, dict):
        raise invalid_type("output_config", "an object", config)
    require_known("output_config", config, "format", "effort")
    if config.get("effort") is not None:
        one_of(*EFFORTS)("output_config.effort", config["effort"])
    form = config.get("format")
    if form is None:
        return {}
    if not isinstance(form, dict):
        raise invalid_type("output_config.format", "an object", form)
    require_known("output_config.format", form, "type", "schema")
    one_of("json_schema")("output_config.format.type", form.get("type"))
    schema = {"name": "answer", "schema": form.get("schema"), "strict": True}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}
