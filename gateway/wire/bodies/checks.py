"""What a body may say, as a table: taken, refused with an exact 400, or unknown (400 as well).

Each check takes a parameter's name and value and raises the ApiError 400 that OpenAI would send.
"""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

import msgspec

from gateway.errors import ApiError, bad_request

ServiceTier = Literal["auto", "default", "priority", "flex"]
STOP_MAX = 4
USER_MAX = 512
SCHEMA_BYTES_MAX = 64 * 1024
"""Of one schema; whoever compiles it has bounds on the work beside."""
BIASES_MAX = 1024
CHOICES_MAX = 128
"""Answers of one call, over all its prompts; OpenAI's bound for one prompt."""

TOKEN_ID = re.compile(r"0|[1-9][0-9]{0,8}")
"""One spelling for each token, so that none is biased twice."""

Check = Callable[[str, Any], None]
Takes = Callable[[str], Collection[str]]
"""The fields that go on as they are to some server outside of the model named; `auto`: of any."""


def takes_no_more(model: str) -> Collection[str]:
    return ()


def check_fields(fields: Mapping[str, Any], checks: Mapping[str, Check], *required: str) -> None:
    """Raises ApiError 400 where one is not known, does not pass its check, or is missing."""
    if not fields.keys() <= checks.keys():
        name = next(name for name in fields if name not in checks)
        raise ApiError(400, f"Unrecognized request argument supplied: {name}", param=name)
    for name, value in fields.items():
        if value is not None:
            checks[name](name, value)
    for name in required:
        if fields.get(name) is None:
            raise missing(name)


def taken_outside(fields: dict[str, Any], takes: Takes) -> dict[str, Any] | None:
    """The fields that only servers outside of this model are to read, taken out of the others."""
    model = fields.get("model")
    names = [n for n in takes(model) if n in fields] if isinstance(model, str) else ()
    return {n: v for n in names if (v := fields.pop(n)) is not None} or None if names else None


def json_object(body: bytes) -> dict[str, Any]:
    """The fields of a body; raises ApiError 400."""
    try:
        fields = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as broken:
        raise bad_request("We could not parse the JSON body of your request.") from broken
    if not isinstance(fields, dict):
        raise bad_request("The JSON body of a request must be an object.")
    return fields


def unsupported(name: str) -> ApiError:
    return bad_request(
        f"Unsupported parameter: '{name}' is not supported with this model.",
        name,
        "unsupported_parameter",
    )


def missing(name: str) -> ApiError:
    message = f"Missing required parameter: '{name}'."
    return bad_request(message, name, "missing_required_parameter")


def require_known(name: str, value: Mapping[str, Any], *names: str) -> None:
    """Raises ApiError 400 for the first key of the object `name` that nobody knows."""
    for key, content in value.items():
        if content is not None and key not in names:
            where = f"{name}.{key}"
            raise bad_request(f"Unknown parameter: '{where}'.", where, "unknown_parameter")


def schema_size(name: str, schema: object) -> None:
    """Raises ApiError 400 for what is no object, or larger than anybody needs."""
    if not isinstance(schema, dict):
        raise invalid_type(name, "an object", schema)
    size = len(msgspec.json.encode(schema))
    if size > SCHEMA_BYTES_MAX:
        message = f"Invalid '{name}': {size} bytes of schema, at most {SCHEMA_BYTES_MAX} may be."
        raise bad_request(message, name, "invalid_json_schema")


def empty_array(name: str) -> ApiError:
    return bad_request(
        f"Invalid '{name}': empty array. Expected an array with minimum length 1.",
        name,
        "empty_array",
    )


def invalid_type(name: str, expected: str, value: object) -> ApiError:
    kind = {bool: "a boolean", str: "a string", list: "an array", dict: "an object"}.get(
        type(value), "a number" if isinstance(value, int | float) else "null"
    )
    return bad_request(
        f"Invalid type for '{name}': expected {expected}, but got {kind} instead.",
        name,
        "invalid_type",
    )


def string(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise invalid_type(name, "a string", value)


def words(name: str, value: object) -> None:
    """A string with something in it."""
    string(name, value)
    if not value:
        message = f"Invalid '{name}': empty string. Expected a string with minimum length 1."
        raise bad_request(message, name, "empty_string")


def text_up_to(most: int) -> Check:
    def check(name: str, value: object) -> None:
        if not isinstance(value, str):
            raise invalid_type(name, "a string", value)
        if len(value) > most:
            raise string_too_long(name, most, len(value))

    return check


def string_too_long(name: str, most: int, length: int) -> ApiError:
    return bad_request(
        f"Invalid '{name}': string too long. Expected a string with maximum length {most},"
        f" but got a string with length {length} instead.",
        name,
        "string_above_max_length",
    )


def an_object(name: str, value: object) -> None:
    if not isinstance(value, dict):
        raise invalid_type(name, "an object", value)


def boolean(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise invalid_type(name, "a boolean", value)


def number(low: float, high: float) -> Check:
    def check(name: str, value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise invalid_type(name, "a number", value)
        _in_range(name, value, low, high)

    return check


def integer(low: int, high: int) -> Check:
    def check(name: str, value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise invalid_type(name, "an integer", value)
        _in_range(name, value, low, high)

    return check


def _in_range(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise bad_request(
            f"Invalid '{name}': must be between {low} and {high}, but got {value} instead.",
            name,
            "invalid_value",
        )


def one_of(*allowed: object) -> Check:
    def check(name: str, value: object) -> None:
        if not any(value == a and type(value) is type(a) for a in allowed):
            values = ", ".join(f"'{a}'" for a in allowed)
            raise bad_request(
                f"Invalid value for '{name}'. Supported values are: {values}.",
                name,
                "invalid_value",
            )

    return check


def only(*neutral: object) -> Check:
    """A parameter this engine does not take: its neutral values pass, all else is refused."""

    def check(name: str, value: object) -> None:
        if not any(value == each and type(value) is type(each) for each in neutral):
            raise unsupported(name)

    return check


def only_as_good_as(neutral: object) -> Check:
    """As `only`, whether a number is written as a whole one or not."""
    exact = only(neutral)

    def check(name: str, value: object) -> None:
        if isinstance(value, bool) or isinstance(neutral, bool) or value != neutral:
            exact(name, value)

    return check
