"""What a body may say, as a table: taken, refused with an exact 400, or unknown (400 as well).

Each check takes a parameter's name and value and raises the ApiError 400 that OpenAI would send.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from gateway.errors import ApiError, bad_request

SERVICE_TIERS = ("auto", "default", "priority", "flex")
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


def checked(body: bytes, checks: Mapping[str, Check], *required: str) -> dict[str, Any]:
    """The fields of a body, if each is known and passes its check and none is missing.

    Raises ApiError 400 naming the parameter, in OpenAI's words.
    """
    fields = json_object(body)
    check_fields(fields, checks, *required)
    return fields


def check_fields(fields: Mapping[str, Any], checks: Mapping[str, Check], *required: str) -> None:
    """The same of fields that are decoded already."""
    if not fields.keys() <= checks.keys():
        name = next(name for name in fields if name not in checks)
        raise ApiError(400, f"Unrecognized request argument supplied: {name}", param=name)
    for name, value in fields.items():
        if value is not None:
            checks[name](name, value)
    for name in required:
        if fields.get(name) is None:
            raise missing(name)


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


def require_known(name: str, value: Mapping[str, Any], *known: str) -> None:
    """Raises ApiError 400 for a key of the object `name` that nobody knows."""
    for key in value.keys() - set(known):
        if value[key] is not None:
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
        if value != neutral or type(value) is not type(neutral):
            raise unsupported(name)

    return check


def _stop(name: str, value: object) -> None:
    sequences = [value] if isinstance(value, str) else value
    if not isinstance(sequences, list) or not all(isinstance(s, str) and s for s in sequences):
        raise invalid_type(name, "a string or an array of non-empty strings", value)
    if len(sequences) > STOP_MAX:
        raise bad_request(f"'{name}' takes at most {STOP_MAX} sequences.", name, "invalid_value")


def _logit_bias(name: str, value: object) -> None:
    """Token ids, as JSON writes keys, to what is added to their logits."""
    if not isinstance(value, dict):
        raise invalid_type(name, "an object", value)
    if len(value) > BIASES_MAX:
        raise bad_request(f"'{name}' takes at most {BIASES_MAX} tokens.", name, "invalid_value")
    for token, bias in value.items():
        if not TOKEN_ID.fullmatch(token):
            message = f"Invalid key in '{name}': {token}. Keys are token ids."
            raise bad_request(message, name, "invalid_value")
        number(-100, 100)(f"{name}.{token}", bias)


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
    if value.get("include_obfuscation"):
        raise unsupported(f"{name}.include_obfuscation")


SAMPLING = (
    "temperature",
    "top_p",
    "stop",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
)
NEUTRAL_AT_NOTHING = ("presence_penalty", "frequency_penalty", "logit_bias")
COMMON: dict[str, Check] = {
    "model": string,
    "service_tier": one_of(*SERVICE_TIERS),
    "user": text_up_to(USER_MAX),
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
    "presence_penalty": number(-2, 2),
    "frequency_penalty": number(-2, 2),
    "logit_bias": _logit_bias,
}
"""What both kinds of generation take."""


def sampling(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What goes to the engine as it is; penalties of 0 and no biases are as good as left out."""
    return {
        name: value
        for name, value in fields.items()
        if name in SAMPLING and value is not None and (value or name not in NEUTRAL_AT_NOTHING)
    }
