"""The tools of `/v1/responses`, flat where chat's are nested, and the choice among them."""

from collections.abc import Mapping
from typing import Any

from gateway.errors import bad_request
from gateway.wire.checks import invalid_type

Json = dict[str, Any]
FLAT = ("name", "description", "parameters", "strict")


def chat_tools(tools: object) -> Any:
    """As chat has them. Raises ApiError 400 for tools that OpenAI runs itself."""
    if not isinstance(tools, list):
        return tools
    return [_nested(f"tools[{index}]", tool) for index, tool in enumerate(tools)]


def _nested(name: str, tool: object) -> Json:
    if not isinstance(tool, dict):
        raise invalid_type(name, "an object", tool)
    if tool.get("type") != "function":
        message = (
            f"Unsupported value for '{name}.type': this service has no tools of its own, only"
            " functions of the caller's ('function')."
        )
        raise bad_request(message, f"{name}.type", "unsupported_value")
    return {"type": "function", "function": _without_type(tool)}


def chat_tool_choice(choice: object) -> Any:
    """As chat has it."""
    if not isinstance(choice, dict):
        return choice
    if choice.get("type") == "function":
        return {"type": "function", "function": _without_type(choice)}
    if choice.get("type") != "allowed_tools":
        return choice
    listed = choice.get("tools")
    allowed = _without_type(choice)
    if isinstance(listed, list):
        allowed["tools"] = [_named(f"tool_choice.tools[{n}]", t) for n, t in enumerate(listed)]
    return {"type": "allowed_tools", "allowed_tools": allowed}


def _named(name: str, tool: object) -> Json:
    if not isinstance(tool, dict):
        raise invalid_type(name, "an object", tool)
    return {"type": tool.get("type"), "function": _without_type(tool)}


def _without_type(found: Mapping[str, Any]) -> Json:
    return {key: value for key, value in found.items() if key != "type"}


def shown(tool: Mapping[str, Any]) -> Json:
    """A tool as an answer repeats it: every field there, `strict` only where it was asked for."""
    said = {field: tool.get(field) for field in FLAT}
    return {"type": "function"} | said | {"strict": bool(tool.get("strict"))}
