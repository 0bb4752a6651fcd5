"""Whether an answer is what `/openapi.json` says of its route."""

from __future__ import annotations

from functools import cache
from re import Pattern
from typing import Any

from jsonschema import Draft202012Validator
from starlette.routing import compile_path


def assert_described(app: Any, method: str, target: str, status: int, answer: Any) -> None:
    document = app.openapi()
    path = target.partition("?")[0]
    operation = document["paths"][template_of(document["paths"], path)][method.lower()]
    schema = operation["responses"][str(status)]["content"]["application/json"]["schema"]
    Draft202012Validator(schema | {"components": document["components"]}).validate(answer)


def template_of(paths: dict[str, Any], path: str) -> str:
    """A path that stands there as it is comes before one with a parameter, and one whose parameter
    is a part before one whose parameter has several."""
    if path in paths:
        return path
    wide = {one.replace("}", ":path}"): one for one in sorted(paths)}
    fitting = [one for one in (*sorted(paths), *wide) if _pattern(one).match(path)]
    return wide.get(fitting[0], fitting[0])


@cache
def _pattern(path: str) -> Pattern[str]:
    """There are as many as routes."""
    return compile_path(path)[0]
