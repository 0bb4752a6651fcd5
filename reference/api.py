"""The pages of the HTTP API, from the OpenAPI document: routes of callers, routes of
administrators, and the objects that both name."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from reference.markdown import code, table

Schema = Mapping[str, Any]
JSON = "application/json"
ADMIN = "/admin/v1/"
METHODS = ("get", "post", "put", "patch", "delete")
ROUTES = """# API: calls

The routes that a key of a project may call, and those that ask for no key. [The admin API](admin-api.md) has its own
page, and so have [objects](objects.md) and [errors](errors.md). The running gateway has the same document at `/docs`
and `/openapi.json`. `GET` routes answer `HEAD` too.

"""
ADMINISTRATION = """# API: administration

These routes take the `admin_key` of `ready.json` in the data folder as a bearer. [Commands](commands.md) ask the same
API. [Objects](objects.md) and [errors](errors.md) have their own pages.

"""
OBJECTS = """# API: objects

What routes take and answer, where it has a name. A field without "required" may be missing.

"""
FIELD = ("Field", "Kind", "Says")


def routes(document: Schema) -> str:
    return ROUTES + _page(document, administered=False)


def administration(document: Schema) -> str:
    return ADMINISTRATION + _page(document, administered=True)


def objects(document: Schema) -> str:
    schemas = document["components"]["schemas"]
    return OBJECTS + "".join(_object(name, schemas[name]) for name in sorted(schemas))


def _page(document: Schema, *, administered: bool) -> str:
    operations = [*_operations(document, administered=administered)]
    refusals = {
        (status, answer.get("description", ""))
        for _, _, operation in operations
        for status, answer in operation["responses"].items()
        if status >= "4"
    }
    groups: dict[str, list[str]] = {}
    for method, path, operation in operations:
        groups.setdefault(_noun(path), []).append(_operation(method, path, operation))
    sections = "".join(f"## {noun}\n\n{''.join(texts)}" for noun, texts in groups.items())
    return f"## Statuses of errors\n\n{table(('Status', 'Means'), sorted(refusals))}{sections}"


def _operations(document: Schema, *, administered: bool) -> Iterator[tuple[str, str, Schema]]:
    for path, operations in document["paths"].items():
        if path.startswith(ADMIN) is administered:
            yield from ((m, path, operations[m]) for m in METHODS if m in operations)


def _noun(path: str) -> str:
    """The noun of a route: the first word after the version."""
    words = [word for word in path.split("/") if word not in ("", "admin", "v1")]
    return words[0].replace("-", " ").replace("_", " ").capitalize()


def _operation(method: str, path: str, operation: Schema) -> str:
    words = [operation.get("summary", ""), operation.get("description", "")]
    parameters = [_parameter(each) for each in operation.get("parameters", [])]
    body = operation.get("requestBody", {}).get("content", {}).get(JSON, {})
    parts = [f"### {method.upper()} {path}\n\n", "\n\n".join(_sentence(w) for w in words if w)]
    parts.append("\n\n" + table(("Parameter", "In", *FIELD[1:]), parameters))
    if body:
        parts.append("Body:\n\n" + _schema(body.get("schema", {})) + _example(body))
    parts.append(f"Answers {_answers(operation)}\n\n")
    return "".join(parts)


def _sentence(words: str) -> str:
    return " ".join(words.split()).removesuffix(".") + "."


def _parameter(each: Schema) -> tuple[str, ...]:
    words = each.get("description") or each["schema"].get("description", "")
    text = _needed(words, each.get("required", False))
    return code(each["name"]), each["in"], kind(each["schema"]), text


def _needed(words: str, needed: bool) -> str:
    return f"required{': ' if words else ''}{words}" if needed else words


def _example(body: Schema) -> str:
    example = body.get("example") or next(
        (each.get("value") for each in body.get("examples", {}).values()), None
    )
    return (
        f"```json\n{json.dumps(example, indent=2, ensure_ascii=False)}\n```\n\n" if example else ""
    )


def _answers(operation: Schema) -> str:
    """The answers of an operation and its error statuses. The top of the page explains the
    statuses."""
    answers, refusals = [], []
    for status, answer in sorted(operation["responses"].items()):
        if status >= "4":
            refusals.append(code(status))
            continue
        kinds = dict.fromkeys(kind(each["schema"]) for each in answer.get("content", {}).values())
        answers.append(" with ".join(filter(None, [code(status), " or ".join(kinds)])))
    return f"{', '.join(answers)}. Errors: {', '.join(refusals)}." if refusals else answers[0] + "."


def _object(name: str, schema: Schema) -> str:
    return f"## {name}\n\n{_said(schema)}{_schema(schema)}"


def _said(schema: Schema) -> str:
    return f"{_sentence(schema['description'])}\n\n" if schema.get("description") else ""


def _schema(schema: Schema) -> str:
    """The fields of a schema as a table. A schema without fields is described in words."""
    rows = [*_fields(schema, "")]
    return table(FIELD, rows) if rows else f"{kind(schema)}\n\n"


def _fields(schema: Schema, path: str) -> Iterator[tuple[str, ...]]:
    """The fields of a schema and of the schemas inside it. Named objects are links."""
    needed = schema.get("required", ())
    for name, each in schema.get("properties", {}).items():
        where = f"{path}{name}"
        words = each.get("description", "") if isinstance(each, Mapping) else ""
        yield code(where), kind(each), _needed(words, name in needed)
        yield from _fields(each, f"{where}.")
    for each in _options(schema):
        yield from _fields(each, path)
    if isinstance(items := schema.get("items"), Mapping):
        yield from _fields(items, f"{path.removesuffix('.')}[]." if path else "[].")
    if isinstance(others := schema.get("additionalProperties"), Mapping):
        yield from _fields(others, f"{path}*.")


def _options(schema: Schema) -> Iterator[Schema]:
    for key in ("anyOf", "oneOf", "allOf"):
        yield from schema.get(key, ())


def kind(schema: Any) -> str:
    if not isinstance(schema, Mapping) or not schema:
        return "any"
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        return f"[{name}](objects.md#{_anchor(name)})"
    if options := [*_options(schema)]:
        return " or ".join(dict.fromkeys(map(kind, options)))
    if "const" in schema:
        return code(json.dumps(schema["const"]))
    if "enum" in schema:
        return ", ".join(code(json.dumps(value)) for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {kind(schema.get('items', {}))}{_bounds(schema, 'Items')}"
    return f"{_types(schema)}{_bounds(schema)}"


def _types(schema: Schema) -> str:
    types = schema.get("type", "any")
    return " or ".join(types) if isinstance(types, list) else str(types)


def _bounds(schema: Schema, of: str = "Length") -> str:
    pairs = (("minimum", "from"), ("exclusiveMinimum", "above"), ("maximum", "to"))
    bounds = [f"{words} {schema[key]}" for key, words in pairs if key in schema]
    if f"max{of}" in schema:
        bounds.append(f"up to {schema[f'max{of}']} {'items' if of == 'Items' else 'characters'}")
    return f" {', '.join(bounds)}" if bounds else ""


def _anchor(name: str) -> str:
    return re.sub(r"[^a-z0-9_-]", "", name.lower())
