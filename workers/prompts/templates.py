"""What chat templates get of tools. The gateway counts and the engines generate by this one file,
as by `control_tokens`, which it completes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

Message = dict[str, Any]

CALL_OPEN, CALL_CLOSE = "<tool_call>", "</tool_call>"
"""Around a call, as Hermes writes it and its many followers do: the one dialect understood here."""


class ToolsUnsupported(ValueError):
    """The template cannot describe tools to a model. `param` is the field that has them."""

    def __init__(self, message: str, param: str) -> None:
        super().__init__(message)
        self.param = param


def takes_tools(template: str) -> bool:
    """Whether the template renders tools, and writes their calls in the form that is read here."""
    return "tools" in template and CALL_OPEN in template


def require_tools_taken(
    template: str, messages: Sequence[Message], tools: Sequence[Message]
) -> None:
    """Refuse tools and calls that the template would drop silently. Raises ToolsUnsupported."""
    if takes_tools(template):
        return
    if tools:
        raise ToolsUnsupported("This model takes no tools.", "tools")
    if any(message.get("tool_calls") or message["role"] == "tool" for message in messages):
        raise ToolsUnsupported("This model takes no calls of tools in its messages.", "messages")


def template_message(message: Message) -> Message:
    """A message as templates expect it. There the arguments of calls are objects, not text."""
    if not message.get("tool_calls"):
        return message
    return message | {"tool_calls": [_call(call) for call in message["tool_calls"]]}


def _call(call: Message) -> Message:
    function = call["function"]
    return call | {"function": function | {"arguments": _arguments(function["arguments"])}}


def _arguments(text: str) -> Any:
    """The arguments of a call as an object. A text that is no object stays text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text
