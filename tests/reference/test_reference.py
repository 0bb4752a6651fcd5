"""The reference pages have whatever the product has; each look fails where a row is gone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_origin

import click
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import BaseModel

import gateway
from gateway import errors
from gateway.cli import main
from gateway.metrics.tally import Tally
from gateway.metrics.text import text
from gateway.settings import Settings
from reference.errors import codes_of_source
from reference.metrics import QUIET
from reference.pages import description, pages
from reference.settings import SECRETS
from routing.policy.attributes import ATTRIBUTES

SOURCE = Path(gateway.__file__).parent
METHODS = ("get", "post", "put", "patch", "delete")

Pages = Mapping[str, str]


@pytest.fixture(scope="module")
def written() -> Pages:
    return pages()


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return description()


def section(page: str, heading: str) -> str:
    """Below a heading, up to the next one that is as high; empty where it is not there."""
    level = heading.split(" ")[0]
    found = re.split(rf"(?m)^{re.escape(heading)}$", page, maxsplit=1)
    return re.split(rf"(?m)^#{{1,{len(level)}}} ", found[1])[0] if len(found) == 2 else ""


def rows(text: str) -> set[str]:
    """What stands in the first cell of each row of its tables."""
    return {name for name in re.findall(r"(?m)^\| `([^`]+)`", text)}


# --- settings ----------------------------------------------------------------------------------


def tables(model: type[BaseModel], path: str = "") -> Iterator[tuple[str, set[str]]]:
    """Every table of a settings file with its keys, read off the models themselves."""
    keys, deeper = set(), []
    for name, field in model.model_fields.items():
        inner = [t for t in _types(field.annotation) if issubclass(t, BaseModel)]
        where = f"{path}.{name}".strip(".")
        if inner:
            listed = get_origin(field.annotation) in (list, tuple)
            deeper.append((where, inner[0], listed))
        else:
            keys.add(field.alias or name)
    yield path, keys
    for where, inner_model, listed in deeper:
        for name, found in tables(inner_model, where):
            yield (f"[{name}]" if listed and name == where else name), found


def _types(annotation: Any) -> list[type]:
    inner = getattr(annotation, "__args__", ())
    if isinstance(annotation, type) and not inner:
        return [annotation]
    return [found for each in inner for found in _types(each)]


def missing_settings(page: str) -> list[str]:
    lacking = []
    for name, keys in tables(Settings):
        heading = f"## [{name}]" if name else "## Of all parts"
        lacking += [f"{name} {key}" for key in keys - rows(section(page, heading)) - set(SECRETS)]
    return lacking


def test_every_setting_is_in_the_reference(written: Pages) -> None:
    assert missing_settings(written["settings.md"]) == []
    names = {name for name, _ in tables(Settings)}
    assert {"gateway", "gateway.limiter", "[pools]", "[prices]", "[models]"} <= names


def test_every_setting_says_something_that_stands_for_itself(written: Pages) -> None:
    for line in written["settings.md"].splitlines():
        if line.startswith("| `"):
            words = re.split(r"(?<!\\)\|", line)[4].strip()
            assert words and not words.endswith(","), line


# --- commands ----------------------------------------------------------------------------------


def commands(command: click.Command, path: str = "sluice") -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        if command.invoke_without_command:
            yield path, command
        for name in command.list_commands(click.Context(command)):
            inner = command.get_command(click.Context(command), name)
            assert inner is not None
            yield from commands(inner, f"{path} {name}")
    else:
        yield path, command


def missing_commands(page: str) -> list[str]:
    shared = section(page, "## Options of most commands")
    lacking = []
    for path, command in commands(main):
        told = section(page, f"## {path}")
        lacking += [] if told else [path]
        for option in command.params:
            names = option.opts if isinstance(option, click.Option) else []
            lacking += [f"{path} {n}" for n in names if f"`{n}`" not in told + shared]
    return lacking


def test_every_command_and_option_is_in_the_reference(written: Pages) -> None:
    assert missing_commands(written["commands.md"]) == []
    assert len([*commands(main)]) > 35


# --- errors ------------------------------------------------------------------------------------


def missing_errors(page: str) -> list[str]:
    """Codes of the one module of errors, by its text, and of every other place that makes one."""
    module = Path(errors.__file__).read_text()
    codes = {*re.findall(r'code="(\w+)"', module)} | {code for _, code in codes_of_source()}
    for path in SOURCE.rglob("*.py"):
        codes |= {*re.findall(r'\bcode="(\w+)"', path.read_text())}
    return sorted(code for code in codes if f"| `{code}` |" not in page)


def test_every_error_is_in_the_reference(written: Pages) -> None:
    assert missing_errors(written["errors.md"]) == []


# --- metrics -----------------------------------------------------------------------------------


def missing_metrics(page: str) -> list[str]:
    lacking = []
    for family in text_string_to_metric_families(text(Tally(), QUIET).decode()):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        if name.startswith("sluice_") and f"| `{name}` | {family.type} |" not in page:
            lacking.append(name)
    return lacking


def test_every_metric_is_in_the_reference(written: Pages) -> None:
    assert missing_metrics(written["metrics.md"]) == []
    assert len(rows(written["metrics.md"])) >= 16


def test_every_attribute_is_in_the_reference(written: Pages) -> None:
    page = written["policies.md"]
    for each in ATTRIBUTES:
        assert f"| `{each.name}` | `{each.kind.value}` |" in page


# --- the API -----------------------------------------------------------------------------------


def properties(schema: Any) -> Iterator[str]:
    """Names of all fields of a schema, those of what it holds itself too."""
    if isinstance(schema, Mapping):
        for key, each in schema.items():
            if key == "properties":
                yield from each
            if key not in ("example", "examples", "default", "enum", "const"):
                values = each.values() if key == "properties" else [each]
                for value in values:
                    yield from properties(value)
    elif isinstance(schema, list):
        for each in schema:
            yield from properties(each)


def last_words(text: str) -> set[str]:
    return {name.rpartition(".")[2] for name in rows(text)}


def missing_routes(written: Pages, document: Mapping[str, Any]) -> list[str]:
    lacking = []
    for path, operations in document["paths"].items():
        page = written["admin-api.md" if path.startswith("/admin/v1/") else "api.md"]
        for method in METHODS:
            if (operation := operations.get(method)) is not None:
                told = section(page, f"### {method.upper()} {path}")
                wanted = {each["name"] for each in operation.get("parameters", [])}
                content = operation.get("requestBody", {}).get("content", {})
                wanted |= {*properties(content.get("application/json", {}).get("schema"))}
                lacking += [f"{method} {path} {name}" for name in wanted - last_words(told)]
                lacking += [] if told else [f"{method} {path}"]
    return lacking


def missing_objects(page: str, document: Mapping[str, Any]) -> list[str]:
    lacking = []
    for name, schema in document["components"]["schemas"].items():
        told = section(page, f"## {name}")
        lacking += [f"{name}.{field}" for field in {*properties(schema)} - last_words(told)]
        lacking += [] if told else [name]
    return lacking


def test_every_route_parameter_and_field_is_in_the_reference(
    written: Pages, document: dict[str, Any]
) -> None:
    assert missing_routes(written, document) == []
    assert missing_objects(written["objects.md"], document) == []
    told = "".join(written[page] for page in ("api.md", "admin-api.md"))
    assert len(re.findall(r"(?m)^### (?:GET|POST|PUT|PATCH|DELETE) /", told)) > 80


# --- each look can fail ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("page", "line", "look"),
    [
        ("settings.md", r"\| `lease_s` .*\n", missing_settings),
        ("commands.md", r"\| `--limit-usd` .*\n", missing_commands),
        ("commands.md", r"## sluice key rotate\n", missing_commands),
        ("errors.md", r".*`hub_failed`.*\n", missing_errors),
        ("metrics.md", r".*`sluice_open_calls`.*\n", missing_metrics),
    ],
    ids=lambda given: given if isinstance(given, str) and given.endswith(".md") else "",
)
def test_row_that_is_gone_is_missed(
    written: Pages, page: str, line: str, look: Callable[[str], list[str]]
) -> None:
    without, times = re.subn(line, "", written[page])
    assert times and look(without)


def test_field_or_route_that_is_gone_is_missed(written: Pages, document: dict[str, Any]) -> None:
    without = re.sub(r"### POST /admin/v1/prices\n", "", written["admin-api.md"])
    assert missing_routes({**written, "admin-api.md": without}, document)
    assert missing_objects(re.sub(r"\| `hard` .*\n", "", written["objects.md"]), document)
