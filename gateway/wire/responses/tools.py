"""The tools of `/v1/responses` as the functions that chat has, and the choice among them.

A function of a namespace gets a name that holds both; a custom tool is a function of one text; a
local shell is a function of a command. All of them the caller runs itself. Of what OpenAI runs, a
search is left out where other tools are offered beside it, and the answer's `tools` are without it.
"""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

from gateway.errors import ApiError, bad_request
from gateway.wire.bodies.checks import an_object, boolean, invalid_type
from gateway.wire.bodies.rules import SWITCH, Rule, Variant, elsewhere, unchecked, union_of, variant
from gateway.wire.bodies.rules import TEXT as TEXT_RULE
from gateway.wire.bodies.tools import MODE, NAME_MAX, NAME_SCHEMA, TOOLS_MAX
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

Json = dict[str, Any]
FLAT = ("name", "description", "parameters", "strict")
SEARCH = "web_search"
"""How the types of OpenAI's searches begin."""
SHELL = "local_shell"
TEXT = "input"
"""What a custom tool is given."""
UNSAYABLE = re.compile(r"[^a-zA-Z0-9_-]")
DIGEST_DIGITS = 8
COMMAND: Json = {
    "type": "object",
    "properties": {
        "command": {"type": "array", "items": {"type": "string"}},
        "working_directory": {"type": "string"},
        "timeout_ms": {"type": "integer"},
    },
    "required": ["command"],
    "additionalProperties": False,
}


GRAMMAR = union_of(
    variant("text", {}),
    variant("grammar", {"syntax": TEXT_RULE, "definition": TEXT_RULE}, "syntax", "definition"),
)


def _function_of(name: Schema) -> Schema:
    """Chat checks the function."""
    fields: dict[str, Schema] = {
        "name": name,
        "description": STRING,
        "parameters": ANYTHING,
        "strict": BOOLEAN,
        "defer_loading": BOOLEAN,
    }
    return part({"type": const("function")} | fields, *(fields.keys() - {"name"}))


def _custom_of(name: Schema) -> Variant:
    fields = {
        "name": elsewhere(name),
        "description": unchecked(STRING),
        "format": GRAMMAR,
        "defer_loading": SWITCH,
    }
    return variant("custom", fields, "name", first=("defer_loading", "format"))


def _objects(name: str, tools: Any) -> None:
    if not isinstance(tools, list):
        raise invalid_type(name, "an array of objects", tools)
    for index, tool in enumerate(tools):
        an_object(f"{name}[{index}]", tool)


SEARCHES: Schema = objects({"type": text(pattern=f"^{SEARCH}")})
CUSTOM = _custom_of(NAME_SCHEMA)
INNER = either(_function_of(STRING), _custom_of(STRING).schema, SEARCHES)
NAMESPACE = variant(
    "namespace",
    {"name": TEXT_RULE, "description": TEXT_RULE, "tools": Rule(_objects, array(INNER))},
    *("name", "tools"),
)
SHELL_TOOL = variant(SHELL, {})
TOOL = either(
    _function_of(NAME_SCHEMA), CUSTOM.schema, NAMESPACE.schema, SHELL_TOOL.schema, SEARCHES
)
TOOLS = array(TOOL, maxItems=TOOLS_MAX)
NAMED = either(
    part(
        {"type": one_of(("function", "custom")), "name": STRING, "namespace": STRING}, "namespace"
    ),
    part({"type": const(SHELL)}),
)
CHOICE = either(
    one_of(("none", "auto", "required")),
    NAMED,
    part({"type": const("allowed_tools"), "mode": MODE.schema, "tools": array(NAMED, minItems=1)}),
)
"""Chat checks the choice."""


class Tool(NamedTuple):
    """What the caller calls it; `kind` is its type."""

    kind: str
    name: str
    namespace: str | None = None

    @property
    def chat_name(self) -> str:
        """The same for the same tool in every call, and no longer than a function's may be."""
        if self.namespace is None:
            return self.name
        full = UNSAYABLE.sub("_", f"{self.namespace}__{self.name}")
        if len(full) <= NAME_MAX:
            return full
        digest = sha256(f"{self.namespace}\n{self.name}".encode()).hexdigest()[:DIGEST_DIGITS]
        return f"{full[: NAME_MAX - DIGEST_DIGITS - 1]}_{digest}"


class Toolbox:
    """`functions` are what chat is offered, `origins` where each stood in the body, and `tools` by
    a function's name what the caller calls it, where that is anything but the same function."""

    def __init__(self) -> None:
        self.functions: list[Json] = []
        self.origins: dict[str, str] = {}
        self.tools: dict[str, Tool] = {}
        self._search: str | None = None

    def add(self, name: str, tools: Any) -> None:
        """Raises ApiError 400 for tools that OpenAI runs itself."""
        if tools is None:
            return
        _objects(name, tools)
        for index, tool in enumerate(tools):
            self._add(f"{name}[{index}]", tool)

    def require_more_than_search(self) -> None:
        """Raises ApiError 400 where a search is all that was asked for."""
        if self._search is not None and not self.functions:
            raise _not_offered(self._search)

    def _add(self, name: str, tool: Json, namespace: Json | None = None) -> None:
        kind = tool.get("type")
        if kind == "namespace" and namespace is None:
            NAMESPACE.check(name, tool)
            for index, inner in enumerate(tool["tools"]):
                self._add(f"{name}.tools[{index}]", inner, tool)
        elif kind == "function":
            self._offer(name, kind, _function(name, tool), namespace)
        elif kind == "custom":
            CUSTOM.check(name, tool)
            self._offer(name, kind, _custom(tool), namespace)
        elif kind == SHELL and namespace is None:
            SHELL_TOOL.check(name, tool)
            shell = {"name": SHELL, "description": "Runs a command.", "parameters": COMMAND}
            self._offer(name, kind, shell, None)
        elif isinstance(kind, str) and kind.startswith(SEARCH):
            self._search = name
        else:
            raise _not_offered(name)

    def _offer(self, name: str, kind: str, function: Json, namespace: Json | None) -> None:
        where = f"tools[{len(self.functions)}]"
        self.origins |= {where: name, f"{where}.function": name}
        if namespace is not None and isinstance(function.get("name"), str):
            tool = Tool(kind, function["name"], namespace["name"])
            function |= {"name": tool.chat_name, "description": _about(namespace, function)}
            self.tools[tool.chat_name] = tool
        elif kind != "function":
            self.tools[str(function.get("name"))] = Tool(kind, str(function.get("name")))
        self.functions.append({"type": "function", "function": function})


def _about(namespace: Json, function: Json) -> Any:
    """What is said of both; what is no text is for chat's check to refuse."""
    own, shared = function.get("description"), namespace.get("description")
    if own is None or shared is None:
        return shared if own is None else own
    return f"{shared}\n\n{own}" if isinstance(own, str) else own


def _function(name: str, tool: Json) -> Json:
    """What would be loaded later is loaded at once."""
    if tool.get("defer_loading") is not None:
        boolean(f"{name}.defer_loading", tool["defer_loading"])
    return {key: v for key, v in tool.items() if key not in ("type", "defer_loading")}


def _custom(tool: Json) -> Json:
    """The model is told of a grammar. Nothing holds it to that."""
    text: Json = {"type": "string"}
    form = tool.get("format")
    if form is not None and form["type"] == "grammar":
        text["description"] = f"By this {form['syntax']} grammar:\n{form['definition']}"
    parameters = {
        "type": "object",
        "properties": {TEXT: text},
        "required": [TEXT],
        "additionalProperties": False,
    }
    about = tool.get("description")
    return {"name": tool["name"], "description": about, "parameters": parameters}


def _not_offered(name: str) -> ApiError:
    message = (
        f"Unsupported value for '{name}.type': this service has no tools of its own, only the"
        " caller's ('function', 'custom', 'namespace', 'local_shell')."
    )
    return bad_request(message, f"{name}.type", "unsupported_value")


def chat_tool_choice(choice: object) -> Any:
    """As chat has it."""
    if not isinstance(choice, dict):
        return choice
    if choice.get("type") in ("function", "custom", SHELL):
        return {"type": "function", "function": _named(choice)}
    if choice.get("type") != "allowed_tools":
        return choice
    tools = choice.get("tools")
    allowed = _without_type(choice)
    if isinstance(tools, list):
        allowed["tools"] = [_allowed(f"tool_choice.tools[{n}]", t) for n, t in enumerate(tools)]
    return {"type": "allowed_tools", "allowed_tools": allowed}


def _allowed(name: str, tool: object) -> Json:
    if not isinstance(tool, dict):
        raise invalid_type(name, "an object", tool)
    kind = "function" if tool.get("type") in ("custom", SHELL) else tool.get("type")
    return {"type": kind, "function": _named(tool)}


def _named(choice: Mapping[str, Any]) -> Json:
    fields = _without_type(choice)
    if choice.get("type") == SHELL:
        return fields | {"name": SHELL}
    namespace = fields.pop("namespace", None)
    if isinstance(namespace, str) and isinstance(fields.get("name"), str):
        fields["name"] = Tool("function", fields["name"], namespace).chat_name
    return fields


def _without_type(fields: Mapping[str, Any]) -> Json:
    return {key: value for key, value in fields.items() if key != "type"}


def shown(tools: object) -> list[Json]:
    """Tools as an answer repeats them: every field of a function there, `strict` only where it was
    asked for, and no search, which no model is offered."""
    list_ = tools if isinstance(tools, list) else []
    return [_shown(tool) for tool in list_ if not str(tool["type"]).startswith(SEARCH)]


def _shown(tool: Mapping[str, Any]) -> Json:
    if tool["type"] != "function":
        return dict(tool)
    fields = {field: tool.get(field) for field in FLAT}
    return {"type": "function"} | fields | {"strict": bool(tool.get("strict"))}
