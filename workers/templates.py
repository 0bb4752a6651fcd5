"""What chat templates are told of tools. The gateway counts and the engines generate by this one
file, as by `control_tokens`, which it completes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

Message = dict[str, Any]

CALL_OPEN, CALL_CLOSE = "<tool_call>", "</tool_call>"
"""Around a call, as Hermes writes it and its many followers do: the one dialect understood here."""


class ToolsUnsupported(ValueError):
    """The template cannot tell a model of tools; `param` is the field that has them."""

    def __init__(self, message: str, param: str) -> None:
        super().__init__(message)
        self.param = param


def takes_tools(template: str) -> bool:
    """The template renders tools, and has their calls written as they are understood here."""
    return "tools" in template and CALL_OPEN in template


def require_tools_taken(
    template: str, messages: Sequence[Message], tools: Sequence[Message]
) -> None:
    """Raises ToolsUnsupported for what the template would drop silently."""
    if takes_tools(template):
        return
    if tools:
        raise ToolsUnsupported("This model takes no tools.", "tools")
    if any(message.get("tool_calls") or message["role"] == "tool" for message in messages):
        raise ToolsUnsupported("This model takes no calls of tools in its messages.", "messages")


def told(message: Message) -> Message:
    """A message as templates expect it: arguments of calls are objects there, not text."""
    if not message.get("tool_calls"):
        return message
    return message | {"tool_calls": [_call(call) for call in message["tool_calls"]]}


def _call(call: Message) -> Message:
    function = call["function"]
    return call | {"function": function | {"arguments": _arguments(function["arguments"])}}


def _arguments(text: str) -> Any:
    """What is no object stays the text that it is."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return found if isinstance(found, dict) else text
