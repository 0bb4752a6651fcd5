"""The form of an answer, read from a body as a guide. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from workers.deployments.errors import HttpError
from workers.engines.bounds import rounded_room
from workers.engines.forms import Guide, Rule, Schema

Json = dict[str, Any]

NO_PARAMETERS: Json = {"type": "object", "properties": {}, "additionalProperties": False}
FORMAT = "response_format"
STRUCTURED = "structured_outputs"


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


class StructuredOutputs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The form of an answer in vLLM's words. One of these is set."""

    json: Json | None = None
    json_object: bool | None = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = None


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


def structured(outputs: StructuredOutputs | None, tokens_max: int | None) -> Guide | None:
    """The guide of `structured_outputs`. None where any text will do."""
    if outputs is None:
        return None
    if outputs.json is not None or outputs.json_object:
        schema = {"type": "object"} if outputs.json is None else outputs.json
        param = f"{STRUCTURED}.json"
        answer = Schema(STRUCTURED, _text(schema), param, lenient=outputs.json is not None)
        return Guide(answer, room=rounded_room(tokens_max))
    for kind in ("regex", "choice", "grammar"):
        if (value := getattr(outputs, kind)) is not None:
            return Guide(rule=Rule(kind, _rule(kind, value), f"{STRUCTURED}.{kind}"))
    return None


def _rule(kind: str, value: Any) -> str:
    """A grammar in Lark's words."""
    if kind == "regex":
        return "start: /" + value.replace("/", "\\/").replace("\n", "\\n") + "/\n"
    if kind == "choice":
        return "start: " + " | ".join(map(json.dumps, value)) + "\n"
    return str(value)


def guide_of(
    tools: Sequence[Tool],
    choice: str | Choice,
    form: ResponseFormat | None,
    *,
    parallel: bool,
    tokens_max: int | None = None,
) -> Guide | None:
    """The guide of tools and a response format. None where any text will do. Raises HttpError,
    400."""
    room = rounded_room(tokens_max)
    answer = _answer(form)
    callable_tools = {tool.function.name: _parameters(n, tool) for n, tool in enumerate(tools)}
    mode, names = _mode(choice, list(callable_tools))
    if unknown := [name for name in names if name not in callable_tools]:
        raise HttpError(400, "invalid_value", f"there is no tool {unknown[0]}", "tool_choice")
    if mode == "none" or not callable_tools:
        return Guide(answer, room=room) if answer else None
    return Guide(
        answer=answer,
        tools=tuple(callable_tools[name] for name in dict.fromkeys(names)),
        must_call=mode in ("required", "function"),
        parallel=parallel and mode != "function",
        room=room,
    )


def _mode(choice: str | Choice, every: list[str]) -> tuple[str, list[str]]:
    """How tools are to be used, and which of them may be called."""
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
    """The schema of a tool's arguments. Arguments are always an object."""
    function = tool.function
    parameters = NO_PARAMETERS if function.parameters is None else function.parameters
    param = f"tools[{number}].function.parameters"
    if parameters.get("type", "object") != "object":
        message = f"Invalid schema for function '{function.name}': it has to be of type 'object'."
        raise HttpError(400, "invalid_function_parameters", message, param)
    return Schema(
        name=function.name,
        text=_text(parameters | {"type": "object"}),
        param=param,
        lenient=not function.strict,
    )


def _answer(form: ResponseFormat | None) -> Schema | None:
    if form is None or form.type == "text":
        return None
    if form.json_schema is None:
        return Schema(form.type, '{"type": "object"}', FORMAT)
    json_schema = form.json_schema
    param = f"{FORMAT}.json_schema.schema"
    return Schema(
        json_schema.name, _text(json_schema.schema), param, lenient=not json_schema.strict
    )


def _text(schema: Json) -> str:
    return msgspec.json.encode(schema).decode()
