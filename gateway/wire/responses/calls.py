"""A call of a function as the item that the caller knows it by: of a function, of one in a
namespace, of a custom tool, or of its shell."""

from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.wire.responses.tools import SHELL, TEXT, Tool

Json = dict[str, Any]


PREFIXES = {"function": "fc", "custom": "ctc", SHELL: "lsh"}


def call_item(
    answer_id: str, place: int, call_id: str, name: str, tools: Mapping[str, Tool]
) -> Json:
    """As it begins; `complete` says what it is given."""
    tool = tools.get(name) or Tool("function", name)
    item_id = f"{PREFIXES[tool.kind]}_{answer_id}_{place}"
    item: Json = {"id": item_id, "status": "in_progress", "call_id": call_id}
    if tool.kind == SHELL:
        return item | {"type": "local_shell_call", "action": _action({})}
    item |= {"name": tool.name}
    if tool.namespace is not None:
        item["namespace"] = tool.namespace
    if tool.kind == "custom":
        return item | {"type": "custom_tool_call", "input": ""}
    return item | {"type": "function_call", "arguments": ""}


def complete(item: Json, arguments: str) -> None:
    if item["type"] == "function_call":
        item["arguments"] = arguments
    elif item["type"] == "custom_tool_call":
        text = _object(arguments).get(TEXT)
        item["input"] = text if isinstance(text, str) else arguments
    else:
        item["action"] = _action(_object(arguments))


def _action(arguments: Json) -> Json:
    return {"type": "exec", "command": [], "env": {}} | arguments


def _object(arguments: str) -> Json:
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
