"""What a chat body may say, as a table: taken, refused with an exact 400, or unknown (400 as well).

Each check takes a parameter's name and value and raises the ApiError 400 that OpenAI would send.
"""

from collections.abc import Callable
from typing import Any

from gateway.errors import ApiError, bad_request

ROLES = ("system", "developer", "user", "assistant")
SERVICE_TIERS = ("auto", "default", "priority", "flex")
STOP_MAX = 4
METADATA_MAX = 16

Check = Callable[[str, Any], None]


def _invalid_type(name: str, expected: str, value: object) -> ApiError:
    found = {bool: "a boolean", str: "a string", list: "an array", dict: "an object"}.get(
        type(value), "a number" if isinstance(value, int | float) else "null"
    )
    return bad_request(
        f"Invalid type for '{name}': expected {expected}, but got {found} instead.",
        name,
        "invalid_type",
    )


def _string(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise _invalid_type(name, "a string", value)


def _boolean(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise _invalid_type(name, "a boolean", value)


def _number(low: float, high: float) -> Check:
    def check(name: str, value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _invalid_type(name, "a number", value)
        _in_range(name, value, low, high)

    return check


def _integer(low: int, high: int) -> Check:
    def check(name: str, value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise _invalid_type(name, "an integer", value)
        _in_range(name, value, low, high)

    return check


def _in_range(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise bad_request(
            f"Invalid '{name}': must be between {low} and {high}, but got {value} instead.",
            name,
            "invalid_value",
        )


def _one_of(*allowed: object) -> Check:
    def check(name: str, value: object) -> None:
        if not any(value == a and type(value) is type(a) for a in allowed):
            values = ", ".join(f"'{a}'" for a in allowed)
            raise bad_request(
                f"Invalid value for '{name}'. Supported values are: {values}.",
                name,
                "invalid_value",
            )

    return check


def _only(neutral: object) -> Check:
    """A parameter this engine does not take: its neutral value passes, all else is refused."""

    def check(name: str, value: object) -> None:
        if value != neutral:
            raise bad_request(
                f"Unsupported parameter: '{name}' is not supported with this model.",
                name,
                "unsupported_parameter",
            )

    return check


def _stop(name: str, value: object) -> None:
    sequences = [value] if isinstance(value, str) else value
    if not isinstance(sequences, list) or not all(isinstance(s, str) and s for s in sequences):
        raise _invalid_type(name, "a string or an array of non-empty strings", value)
    if len(sequences) > STOP_MAX:
        raise bad_request(f"'{name}' takes at most {STOP_MAX} sequences.", name, "invalid_value")


def _metadata(name: str, value: object) -> None:
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise _invalid_type(name, "an object with string values", value)
    if len(value) > METADATA_MAX:
        raise bad_request(f"'{name}' takes at most {METADATA_MAX} pairs.", name, "invalid_value")


def _stream_options(name: str, value: object) -> None:
    if not isinstance(value, dict):
        raise _invalid_type(name, "an object", value)
    for option, setting in value.items():
        if option not in ("include_usage", "include_obfuscation"):
            raise ApiError(
                400,
                f"Unrecognized request argument supplied: {name}.{option}",
                param=f"{name}.{option}",
            )
        _boolean(f"{name}.{option}", setting)


def _messages(name: str, value: object) -> None:
    if not isinstance(value, list):
        raise _invalid_type(name, "an array of objects", value)
    if not value:
        raise bad_request(
            f"Invalid '{name}': empty array. Expected an array with minimum length 1.",
            name,
            "empty_array",
        )
    for index, message in enumerate(value):
        _message(f"{name}[{index}]", message)


def _message(name: str, message: object) -> None:
    if not isinstance(message, dict):
        raise _invalid_type(name, "an object", message)
    _one_of(*ROLES)(f"{name}.role", message.get("role"))
    for extra in message.keys() - {"role", "content", "name"}:
        if message[extra] is not None:
            raise bad_request(
                f"Unsupported parameter: '{name}.{extra}' is not supported with this model.",
                f"{name}.{extra}",
                "unsupported_parameter",
            )
    content = message.get("content")
    if isinstance(content, list):
        for index, part in enumerate(content):
            _text_part(f"{name}.content[{index}]", part)
    elif not isinstance(content, str):
        raise _invalid_type(f"{name}.content", "a string or an array of parts", content)


def _text_part(name: str, part: object) -> None:
    if not isinstance(part, dict):
        raise _invalid_type(name, "an object", part)
    _one_of("text")(f"{name}.type", part.get("type"))
    _string(f"{name}.text", part.get("text"))


SAMPLING = ("temperature", "top_p", "stop", "seed")
CHECKS: dict[str, Check] = {
    "model": _string,
    "messages": _messages,
    "stream": _boolean,
    "stream_options": _stream_options,
    "max_tokens": _integer(1, 2**31),
    "max_completion_tokens": _integer(1, 2**31),
    "temperature": _number(0, 2),
    "top_p": _number(0, 1),
    "stop": _stop,
    "seed": _integer(-(2**63), 2**63 - 1),
    "service_tier": _one_of(*SERVICE_TIERS),
    "user": _string,
    "safety_identifier": _string,
    "metadata": _metadata,
    "n": _only(1),
    "store": _only(False),
    "logprobs": _only(False),
    "top_logprobs": _only(0),
    "presence_penalty": _only(0),
    "frequency_penalty": _only(0),
    "logit_bias": _only({}),
    "response_format": _only({"type": "text"}),
    "modalities": _only(["text"]),
    "tools": _only([]),
    "tool_choice": _only("none"),
    "parallel_tool_calls": _only(True),
    "functions": _only([]),
    "function_call": _only("none"),
    "audio": _only(None),
    "prediction": _only(None),
    "reasoning_effort": _only(None),
    "verbosity": _only(None),
    "web_search_options": _only(None),
    "prompt_cache_key": _string,
    "prompt_cache_retention": _only(None),
}
