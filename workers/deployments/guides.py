"""What a body says of the form of its answer, as a guide. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from workers.deployments.errors import HttpError
from workers.engines.forms import Guide, Schema

Json = dict[str, Any]

NO_PARAMETERS: Json = {"type": "object", "properties": {}, "additionalProperties": False}
FORMAT = "response_format"


class Function(msgspec.Struct, frozen=True):
    name: str
    description: str | None = None
    parameters: Json | None = None
    strict: bool | None = None


class Tool(msgspec.Struct, frozen=True):
    function: Function
    type: str = "function"


class JsonSchema(msgspec.Struct, frozen=True):
    schema: Json
    name: str = "answer"
    strict: bool | None = None


class ResponseFormat(msgspec.Struct, frozen=True):
    type: str
    json_schema: JsonSchema | None = None


class Named(msgspec.Struct, frozen=True):
    name: str


class NamedTool(msgspec.Struct, frozen=True):
    function: Named
    type: str = "function"


class Allowed(msgspec.Struct, frozen=True):
    mode: str
    tools: list[NamedTool]


class Choice(msgspec.Struct, frozen=True):
    type: str
    function: Named | None = None
    allowed_tools: Allowed | None = None


def guide_of(
    tools: Sequence[Tool],
    choice: str | Choice,
    form: ResponseFormat | None,
    *,
    parallel: bool,
) -> Guide | None:
    """None where any text will do. Raises HttpError, 400."""
    answer = _answer(form)
    callable_tools = {tool.function.name: _parameters(n, tool) for n, tool in enumerate(tools)}
    mode, names = _mode(choice, list(callable_tools))
    if unknown := [name for name in names if name not in callable_tools]:
        raise HttpError(400, "invalid_value", f"there is no tool {unknown[0]}", "tool_choice")
    if mode == "none" or not callable_tools:
        return Guide(answer) if answer else None
    return Guide(
        answer=answer,
        tools=tuple(callable_tools[name] for name in dict.fromkeys(names)),
        must_call=mode in ("required", "function"),
        parallel=parallel and mode != "function",
    )


def _mode(choice: str | Choice, every: list[str]) -> tuple[str, list[str]]:
    """What has to become of the tools, and which of them may be called."""
    if isinstance(choice, str):
        return choice, every
    if choice.function is not None:
        return "function", [choice.function.name]
    if choice.allowed_tools is not None:
        return choice.allowed_tools.mode, [t.function.name for t in choice.allowed_tools.tools]
    raise HttpError(
        400, "invalid_value", "a choice names a function or allowed tools", "tool_choice"
    )


def _parameters(number: int, tool: Tool) -> Schema:
    """Arguments are an object, whatever else they are."""
    function = tool.function
    found = NO_PARAMETERS if function.parameters is None else function.parameters
    param = f"tools[{number}].function.parameters"
    if found.get("type", "object") != "object":
        message = f"Invalid schema for function '{function.name}': it has to be of type 'object'."
        raise HttpError(400, "invalid_function_parameters", message, param)
    return Schema(
        name=function.name,
        text=_text(found | {"type": "object"}),
        param=param,
        lenient=not function.strict,
    )


def _answer(form: ResponseFormat | None) -> Schema | None:
    if form is None or form.type == "text":
        return None
    if form.json_schema is None:
        return Schema(form.type, '{"type": "object"}', FORMAT)
    asked = form.json_schema
    param = f"{FORMAT}.json_schema.schema"
    return Schema(asked.name, _text(asked.schema), param, lenient=not asked.strict)


def _text(schema: Json) -> str:
    return msgspec.json.encode(schema).decode()
