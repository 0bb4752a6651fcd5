"""What a body may say, as a table: taken, refused with an exact 400, or unknown (400 as well).

Each check takes a parameter's name and value and raises the ApiError 400 that OpenAI would send.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gateway.errors import ApiError, bad_request

SERVICE_TIERS = ("auto", "default", "priority", "flex")
STOP_MAX = 4
CHOICES_MAX = 128
"""Answers of one call, over all its prompts; OpenAI's bound for one prompt."""

Check = Callable[[str, Any], None]


def checked(body: bytes, checks: Mapping[str, Check], *required: str) -> dict[str, Any]:
    """The fields of a body, if each is known and passes its check and none is missing.

    Raises ApiError 400 naming the parameter, in OpenAI's words.
    """
    fields = _json_object(body)
    for name in fields.keys() - checks.keys():
        raise ApiError(400, f"Unrecognized request argument supplied: {name}", param=name)
    for name, check in checks.items():
        if fields.get(name) is not None:
            check(name, fields[name])
    for name in required:
        if fields.get(name) is None:
            message = f"Missing required parameter: '{name}'."
            raise bad_request(message, name, "missing_required_parameter")
    return fields


def _json_object(body: bytes) -> dict[str, Any]:
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


def empty_array(name: str) -> ApiError:
    return bad_request(
        f"Invalid '{name}': empty array. Expected an array with minimum length 1.",
        name,
        "empty_array",
    )


def require_together(fields: Mapping[str, Any], name: str, enabler: str) -> None:
    """Raises ApiError 400 where `name` is said and `enabler` is not on."""
    if fields.get(name) is not None and not fields.get(enabler):
        message = f"The '{name}' parameter is only allowed when '{enabler}' is enabled."
        raise bad_request(message, name)


def invalid_type(name: str, expected: str, value: object) -> ApiError:
    found = {bool: "a boolean", str: "a string", list: "an array", dict: "an object"}.get(
        type(value), "a number" if isinstance(value, int | float) else "null"
    )
    return bad_request(
        f"Invalid type for '{name}': expected {expected}, but got {found} instead.",
        name,
        "invalid_type",
    )


def string(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise invalid_type(name, "a string", value)


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


def only(neutral: object) -> Check:
    """A parameter this engine does not take: its neutral value passes, all else is refused."""

    def check(name: str, value: object) -> None:
        if value != neutral:
            raise unsupported(name)

    return check


def _stop(name: str, value: object) -> None:
    sequences = [value] if isinstance(value, str) else value
    if not isinstance(sequences, list) or not all(isinstance(s, str) and s for s in sequences):
        raise invalid_type(name, "a string or an array of non-empty strings", value)
    if len(sequences) > STOP_MAX:
        raise bad_request(f"'{name}' takes at most {STOP_MAX} sequences.", name, "invalid_value")


def _stream_options(name: str, value: object) -> None:
    if not isinstance(value, dict):
        raise invalid_type(name, "an object", value)
    for option, setting in value.items():
        if option not in ("include_usage", "include_obfuscation"):
            raise ApiError(
                400,
                f"Unrecognized request argument supplied: {name}.{option}",
                param=f"{name}.{option}",
            )
        boolean(f"{name}.{option}", setting)


SAMPLING = ("temperature", "top_p", "stop", "seed")
COMMON: dict[str, Check] = {
    "model": string,
    "service_tier": one_of(*SERVICE_TIERS),
    "user": string,
}
GENERATED: dict[str, Check] = COMMON | {
    "stream": boolean,
    "stream_options": _stream_options,
    "max_tokens": integer(1, 2**31),
    "temperature": number(0, 2),
    "top_p": number(0, 1),
    "stop": _stop,
    "seed": integer(-(2**63), 2**63 - 1),
    "n": integer(1, CHOICES_MAX),
    "presence_penalty": only(0),
    "frequency_penalty": only(0),
    "logit_bias": only({}),
}
"""What both kinds of generation take; what no engine here does passes at its neutral value."""


def sampling(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What goes to the engine as it is."""
    return {name: fields[name] for name in SAMPLING if fields.get(name) is not None}
