"""The messages of a conversation: what they may hold, and what becomes of them.

Text only, until models take more.
"""

from typing import Any

from gateway.wire.checks import empty_array, invalid_type, one_of, string, unsupported

ROLES = ("system", "developer", "user", "assistant")


def conversation(name: str, value: object) -> None:
    """The check of a list of messages; raises ApiError 400."""
    if not isinstance(value, list):
        raise invalid_type(name, "an array of objects", value)
    if not value:
        raise empty_array(name)
    for index, message in enumerate(value):
        _message(f"{name}[{index}]", message)


def _message(name: str, message: object) -> None:
    if not isinstance(message, dict):
        raise invalid_type(name, "an object", message)
    one_of(*ROLES)(f"{name}.role", message.get("role"))
    for extra in message.keys() - {"role", "content", "name"}:
        if message[extra] is not None:
            raise unsupported(f"{name}.{extra}")
    content = message.get("content")
    if isinstance(content, list):
        for index, part in enumerate(content):
            _text_part(f"{name}.content[{index}]", part)
    elif not isinstance(content, str):
        raise invalid_type(f"{name}.content", "a string or an array of parts", content)


def _text_part(name: str, part: object) -> None:
    if not isinstance(part, dict):
        raise invalid_type(name, "an object", part)
    one_of("text")(f"{name}.type", part.get("type"))
    string(f"{name}.text", part.get("text"))


def plain_message(message: dict[str, Any]) -> dict[str, Any]:
    """Role and text; a developer message is a system message to models that know no developer."""
    role = "system" if message["role"] == "developer" else message["role"]
    content = message["content"]
    if isinstance(content, list):
        content = "".join(part["text"] for part in content)
    return {"role": role, "content": content}
