"""Functions on offer, and the values that a question gives their parameters."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from models.corpus.facts import (
    draw_city,
    draw_date,
    draw_email,
    draw_person,
    draw_price,
    draw_time,
    draw_word,
)
from models.corpus.forms import Form
from models.corpus.json_text import dumped
from models.corpus.phrase import indefinite
from models.corpus.tables.facts import CITIES, SIGNS, SKIES, SYMBOLS, TOPICS, WARES
from models.corpus.tables.tools import (
    DESCRIPTIONS,
    FAMILIES,
    FORM_DESCRIPTIONS,
    FORM_NAMES,
    MESSAGES,
    NOUNS,
    PARAMETERS,
    VERBS,
    Family,
)

INTEGERS = {"a", "b", "count", "minutes"}
UNITS = ("celsius", "fahrenheit")


@dataclass(frozen=True, slots=True)
class Tool:
    """A function of a family. `names` are the names of its parameters by their kinds."""

    name: str
    declared: str
    family: Family
    names: dict[str, str]


@dataclass(frozen=True, slots=True)
class Use:
    """A question that a tool answers, with the call, its result and the answer."""

    question: str
    call: str
    result: str
    answer: str


def draw_tools(rng: Random, count: int) -> list[Tool]:
    """Tools of different names, known and invented."""
    families = rng.sample(FAMILIES, count)
    tools = [_tool(rng, _made_up(rng) if rng.random() < 0.15 else family) for family in families]
    return list({tool.name: tool for tool in tools}.values())


def draw_use(rng: Random, tool: Tool) -> Use:
    *_, asks, results, answers = tool.family
    values = _draw_values(rng)
    facts = values | {"an_sign": indefinite(values["sign"])}
    result = rng.choice(results).format(**facts | {"n": _number(values, tool.name, tool.family)})
    arguments = {name: values[kind] for kind, name in tool.names.items()}
    answer = rng.choice(answers).format(**facts | {"r": result})
    output = (
        dumped({rng.choice(("result", "output", tool.name)): result})
        if rng.random() < 0.3
        else result
    )
    return Use(rng.choice(asks).format(**facts), called(tool.name, arguments), output, answer)


def draw_mismatch(rng: Random, tool: Tool, question: str) -> str:
    """The call of a tool that nobody asked for. Its texts come from the question."""
    words = question.rstrip(".?!").split()
    values = _draw_values(rng)
    text = " ".join(words[-rng.randint(1, 3) :])[:60]
    arguments = {
        name: values[kind] if kind in INTEGERS | {"unit"} else text
        for kind, name in tool.names.items()
    }
    return called(tool.name, arguments)


def form_tool(rng: Random, form: Form) -> tuple[str, str]:
    """A form as a tool: its name and its declaration."""
    name = form.name if rng.random() < 0.6 else rng.choice(FORM_NAMES)
    description = rng.choice(FORM_DESCRIPTIONS).format(n=name)
    schema = form.schema
    if rng.random() < 0.5:
        titled = {
            key: {"title": key.replace("_", " ").title()} | inner
            for key, inner in schema["properties"].items()
        }
        schema = {"properties": titled, "required": list(titled), "type": "object"}
    return name, _declared(rng, name, description, schema)


def called(name: str, arguments: dict[str, Any]) -> str:
    return (
        f'<tool_call>\n{{"name": {dumped(name)}, "arguments": {dumped(arguments)}}}\n</tool_call>'
    )


def call_head(name: str) -> str:
    """The beginning of a forced call."""
    return f'<tool_call>\n{{"name": {dumped(name)}, "arguments": {{'


def _tool(rng: Random, family: Family) -> Tool:
    names, descriptions, kinds, *_ = family
    name = rng.choice(names)
    parameters = {kind: rng.choice(PARAMETERS[kind]) for kind in kinds}
    if len(set(parameters.values())) < len(parameters):
        parameters = {kind: PARAMETERS[kind][0] for kind in kinds}
    properties = {parameters[kind]: _parameter(rng, kind) for kind in kinds}
    required = list(properties)
    if "city" in kinds and rng.random() < 0.2:
        properties |= {"unit": {"type": "string", "enum": list(UNITS)}}
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required or rng.random() < 0.5:
        schema |= {"required": required}
    if rng.random() < 0.3:
        schema |= {"additionalProperties": False}
    description = rng.choice(descriptions) if rng.random() < 0.85 else ""
    return Tool(name, _declared(rng, name, description, schema), family, parameters)


def _parameter(rng: Random, kind: str) -> dict[str, Any]:
    if kind == "unit":
        schema: dict[str, Any] = {"type": "string", "enum": list(UNITS)}
    else:
        schema = {"type": "integer" if kind in INTEGERS else "string"}
    if kind in DESCRIPTIONS and rng.random() < 0.4:
        schema["description"] = rng.choice(DESCRIPTIONS[kind])
    return schema


def _declared(rng: Random, name: str, description: str, schema: dict[str, Any]) -> str:
    function: dict[str, Any] = {"name": name}
    if description:
        function["description"] = description
    if rng.random() < 0.15:
        function |= {"strict": True}
    return dumped({"type": "function", "function": function | {"parameters": schema}})


def _made_up(rng: Random) -> Family:
    verb, noun = rng.choice(VERBS), rng.choice(NOUNS) if rng.random() < 0.5 else draw_word(rng)
    action = verb.replace("_", " ")
    kinds = rng.choice((("word",), ("word",), ("thing", "count"), ()))
    ending = {("word",): " {word}", ("thing", "count"): " of {thing} number {count}", (): ""}[kinds]
    return (
        (f"{verb}_{noun}",),
        (f"{action.capitalize()} the {noun}",),
        kinds,
        (
            f"Please {action} the {noun}{ending}.",
            f"{action.capitalize()} the {noun}{ending}.",
            f"I want to {action} the {noun}{ending}.",
        ),
        ("done", "ok", "{word}"),
        (f"The {noun}: {{r}}.",),
    )


def _draw_values(rng: Random) -> dict[str, Any]:
    a, b = rng.randint(0, rng.choice((12, 99, 999))), rng.randint(0, rng.choice((12, 99, 999)))
    city = draw_city(rng)
    if city in CITIES and rng.random() < 0.15:
        city = f"{city}, {CITIES[city]}"
    elif rng.random() < 0.05:
        city = f"{city}, CA"
    return {
        "city": city, "a": a, "b": b, "sky": rng.choice(SKIES), "person": draw_person(rng), "unit": rng.choice(UNITS),
        "topic": rng.choice(TOPICS) if rng.random() < 0.6 else f"{draw_word(rng)} {draw_word(rng)}", "time": draw_time(rng),
        "email": draw_email(rng), "message": rng.choice(MESSAGES), "sign": rng.choice(SIGNS), "symbol": rng.choice(SYMBOLS),
        "date": draw_date(rng), "count": rng.randint(1, 12), "thing": rng.choice(WARES) if rng.random() < 0.5 else draw_word(rng),
        "word": draw_word(rng) if rng.random() < 0.5 else f"{rng.choice('ABCX')}{rng.randint(10, 9999)}", "minutes": rng.randint(1, 90),
        "expression": f"{a} {rng.choice('+*-')} {b}", "d": rng.randint(1, 6), "price": draw_price(rng),
    }  # fmt: skip


def _number(values: dict[str, Any], name: str, family: Family) -> int:
    """The value of a sum, a product or an expression. Elsewhere it is any other number."""
    a, b = values["a"], values["b"]
    kinds: Sequence[str] = family[2]
    sign = values["expression"].split()[1] if "expression" in kinds else ""
    if sign == "*" or name in ("multiply", "times", "product_of"):
        return int(a * b)
    if sign == "-":
        return int(a - b)
    return int(a + b) if sign == "+" or "a" in kinds else int(values["count"] * 3)
