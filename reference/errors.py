"""The page of errors: those of `gateway/errors.py`, made with example values, and further codes.

A code that only one route uses is written at that route. It is found by reading the source.
"""

import ast
import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gateway
from gateway import errors as declared
from gateway.errors import ApiError, QuotaStatus
from reference.markdown import code, table

HEAD = """# Errors

Every refusal and failure is a document in OpenAI's shape. `/v1/messages` answers in Anthropic's instead.

```json
{"error": {"message": "Incorrect API key provided.", "type": "invalid_request_error", "param": null, "code": "invalid_api_key"}}
```

`param` names the field that is wrong. `retry-after` says in how many seconds another try may succeed. `x-should-retry: false`
says that none does: the official clients then stop. A stream that has begun reports its failure as an event of the same shape,
and no `[DONE]` follows.

## Of all routes

Words in capitals stand for values of the call.

"""
FURTHER = """## Of single routes

"""
FIELDS = """## Of wrong fields

These are 400, and `param` names the field.

"""
EXAMPLES: Mapping[type, Any] = {float: 2.0, int: 1000}


def errors() -> str:
    first = [*_declared()]
    codes_declared = {error.code for error in first}
    rows = [
        (
            str(error.status),
            code(error.code or ""),
            code(error.type),
            _headers(error),
            error.message,
        )
        for error in sorted(first, key=lambda error: (error.status, error.code or ""))
    ]
    others = sorted(pair for pair in codes_of_source() if pair[1] not in codes_declared)
    fields = [(code(name),) for name in sorted({name for status, name in others if status == 400})]
    single = [(str(status), code(name)) for status, name in others if status != 400]
    head = ("Status", "Code", "Type", "Headers", "Message")
    return (
        HEAD
        + table(head, rows)
        + FURTHER
        + table(("Status", "Code"), single)
        + FIELDS
        + table(("Code",), fields)
    )


def _declared() -> Iterator[ApiError]:
    for function in vars(declared).values():
        if (
            inspect.isfunction(function)
            and inspect.signature(function).return_annotation is ApiError
        ):
            yield from _made(function)


def _made(function: Any) -> Iterator[ApiError]:
    """One error, or one for each status from which an organization may choose."""
    parameters = inspect.signature(function).parameters.values()
    if any(each.annotation is QuotaStatus for each in parameters):
        for status in QuotaStatus:
            yield function(**{each.name: _value(each, status) for each in parameters})
    elif function is not declared.bad_request:
        yield function(**{each.name: _value(each) for each in parameters})


def _value(parameter: inspect.Parameter, status: QuotaStatus | None = None) -> Any:
    if parameter.annotation is QuotaStatus:
        return status
    if parameter.annotation is str:
        return parameter.name.upper()
    return EXAMPLES.get(parameter.annotation, {})


def _headers(error: ApiError) -> str:
    return ", ".join(code(name) for name in error.headers() if name != "retry-after-ms")


def codes_of_source() -> set[tuple[int, str]]:
    """Status and code of every error for which the gateway's source has the code written out."""
    codes = set()
    for path in Path(gateway.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and (pair := _told(node)) is not None:
                codes.add(pair)
    return codes


def _told(call: ast.Call) -> tuple[int, str] | None:
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    if name not in ("ApiError", "bad_request"):
        return None
    status = 400 if name == "bad_request" else _constant(call.args[0])
    third = call.args[2] if name == "bad_request" and len(call.args) > 2 else None
    named = next((each.value for each in call.keywords if each.arg == "code"), third)
    error_code = _constant(named)
    return (status, error_code) if isinstance(status, int) and isinstance(error_code, str) else None


def _constant(node: ast.expr | None) -> object:
    return node.value if isinstance(node, ast.Constant) else None
