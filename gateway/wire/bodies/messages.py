"""The messages of a conversation: what they may hold, and what becomes of them.

Text, tool calls and, for servers outside that see them, images.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from gateway.errors import ApiError, bad_request
from gateway.wire.bodies.checks import (
    empty_array,
    invalid_type,
    missing,
    one_of,
    only,
    require_known,
    string,
    unsupported,
)
from gateway.wire.bodies.rules import Rule, needed, object_of, own, word_of
from gateway.wire.bodies.tools import TOOL_CALLS, tool_calls
from gateway.wire.json_schema import ANYTHING, STRING, Schema, array, const, either, part, text
from gateway.wire.json_schema import one_of as enumerated

ROLES = ("system", "developer", "user", "assistant", "tool")
EVERY = frozenset({"role", "content"})
OF_CLIENTS = ("annotations", "provider_specific_fields")
"""What clients send back with an answer as they have it and nobody needs: that it has no
annotations, and litellm's notes on what it read in it."""
FIELDS = {
    "assistant": EVERY | {"name", "refusal", "tool_calls", "reasoning_content", *OF_CLIENTS},
    "tool": EVERY | {"tool_call_id", "name"},
}
OTHERS = EVERY | {"name"}
IMAGE = "image_url"
KINDS = {"assistant": ("text", "refusal"), "user": ("text", IMAGE)}
SPEAKERS = ("user", "assistant", "system")
SILENT = (("refusal", "tool_calls"), ("refusal", "content"), ("tool_calls", "content"))
"""What an assistant may leave unsaid, of its content, a refusal and calls."""


def conversation(name: str, value: object) -> None:
    """The check of a list of messages; raises ApiError 400."""
    if not isinstance(value, list):
        raise invalid_type(name, "an array of objects", value)
    if not value:
        raise empty_array(name)
    for index, message in enumerate(value):
        if not is_plain(message):
            _message(f"{name}[{index}]", message)
    if all(map(only_thinks, value)):
        message = f"Invalid '{name}': nobody says anything in it."
        raise bad_request(message, name, "invalid_value")
    if any(map(_is_about_calls, value)):
        _answered_calls(name, value)


def is_plain(message: object) -> bool:
    """As most are: a role and its text, on the way of every call."""
    return (
        isinstance(message, dict)
        and message.keys() == EVERY
        and isinstance(message["content"], str)
        and message["role"] in SPEAKERS
    )


def only_thinks(message: Mapping[str, Any]) -> bool:
    """A turn of reasoning that led to nothing yet: models here have no place for it, and the last
    turn is theirs."""
    return bool(message.get("reasoning_content")) and not (
        message.get("content") or message.get("tool_calls") or message.get("refusal")
    )


def _is_about_calls(message: Mapping[str, Any]) -> bool:
    return message["role"] == "tool" or "tool_calls" in message


def _message(name: str, message: object) -> None:
    if not isinstance(message, dict):
        raise invalid_type(name, "an object", message)
    one_of(*ROLES)(f"{name}.role", message.get("role"))
    fields = FIELDS.get(message["role"], OTHERS)
    for field, value in message.items():
        if value is not None and field not in fields:
            raise unsupported(f"{name}.{field}")
    if message.get("name") is not None:
        string(f"{name}.name", message["name"])
    if message["role"] == "assistant":
        _assistant(name, message)
    elif message["role"] == "tool":
        if message.get("tool_call_id") is None:
            raise missing(f"{name}.tool_call_id")
        string(f"{name}.tool_call_id", message["tool_call_id"])
    content = message.get("content")
    if content is not None or not _may_be_silent(message):
        _content(f"{name}.content", content, message["role"])


def _assistant(name: str, message: Mapping[str, Any]) -> None:
    """Also what answers of ours say: clients send them back as they are."""
    for field in ("refusal", "reasoning_content"):
        if message.get(field) is not None:
            string(f"{name}.{field}", message[field])
    if message.get("annotations") is not None:
        only([])(f"{name}.annotations", message["annotations"])
    notes = message.get("provider_specific_fields")
    if notes is not None and not isinstance(notes, dict):
        raise invalid_type(f"{name}.provider_specific_fields", "an object", notes)
    if message.get("tool_calls") is not None:
        tool_calls(f"{name}.tool_calls", message["tool_calls"])


def _may_be_silent(message: Mapping[str, Any]) -> bool:
    """Calls and refusals need no text beside."""
    return bool(message.get("tool_calls")) or message.get("refusal") is not None


def _content(name: str, content: object, role: str) -> None:
    if isinstance(content, str):
        return
    if not isinstance(content, list):
        raise invalid_type(name, "a string or an array of parts", content)
    if not content:
        raise empty_array(name)
    for index, each in enumerate(content):
        where = f"{name}[{index}]"
        if not isinstance(each, dict):
            raise invalid_type(where, "an object", each)
        one_of(*KINDS.get(role, ("text",)))(f"{where}.type", each.get("type"))
        require_known(where, each, "type", each["type"])
        if each["type"] == IMAGE:
            SEEN_AT.check(f"{where}.{IMAGE}", each.get(IMAGE))
        else:
            string(f"{where}.{each['type']}", each.get(each["type"]))


def _url(name: str, value: Any) -> None:
    string(name, value)
    if not value.startswith(("https://", "http://", "data:image/")):
        message = f"Invalid '{name}'. Expected a web address or a data URL of an image."
        raise bad_request(message, name, "invalid_image_url")


def images(name: str, messages: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Where there are images, in messages that passed their check."""
    return tuple(
        f"{name}[{index}].content[{place}]"
        for index, message in enumerate(messages)
        if isinstance(message.get("content"), list)
        for place, part in enumerate(message["content"])
        if part["type"] == IMAGE
    )


def images_not_taken(where: str) -> ApiError:
    message = "Invalid content type. image_url is only supported by certain models."
    return bad_request(message, where, "invalid_value")


def _answered_calls(name: str, messages: Sequence[Mapping[str, Any]]) -> None:
    """Every call of a tool is answered by the messages right after it, and nothing else is."""
    calls_at, open_calls = 0, set[str]()
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                raise _stray(f"{name}[{index}]", answers_nothing=True)
            open_calls.discard(message["tool_call_id"])
            continue
        if open_calls:
            raise _stray(f"{name}[{calls_at}]", answers_nothing=False, waiting=open_calls)
        calls_at, open_calls = index, {call["id"] for call in message.get("tool_calls") or ()}
    if open_calls:
        raise _stray(f"{name}[{calls_at}]", answers_nothing=False, waiting=open_calls)


def _stray(
    where: str, *, answers_nothing: bool, waiting: set[str] | frozenset[str] = frozenset()
) -> ApiError:
    if answers_nothing:
        message = (
            "Invalid parameter: messages with role 'tool' must be a response to a preceding message"
            " with 'tool_calls', by its 'tool_call_id'."
        )
        return bad_request(message, f"{where}.role", "invalid_value")
    message = (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to"
        " each 'tool_call_id'. These had no response: " + ", ".join(sorted(waiting))
    )
    return bad_request(message, f"{where}.tool_calls", "invalid_value")


def characters(messages: Sequence[Mapping[str, Any]]) -> int:
    """How much plain messages say, tool calls included."""
    size = sum(len(message["content"] or "") for message in messages)
    calls = (call for message in messages for call in message.get("tool_calls") or ())
    return size + sum(len(str(call["function"]["arguments"])) for call in calls)


def reasoning(messages: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Of earlier answers, in messages that passed their check."""
    return tuple(thoughts for message in messages if (thoughts := message.get("reasoning_content")))


def plain_message(message: dict[str, Any]) -> dict[str, Any]:
    """Text as one string, and what else was said but the reasoning of earlier answers, which only
    servers outside give and get; a developer message is a system message to models that know no
    developer."""
    if is_plain(message):
        return message
    role = "system" if message["role"] == "developer" else message["role"]
    plain = {"role": role, "content": _text(message.get("content"), message.get("refusal"))}
    for field in ("name", "tool_calls", "tool_call_id"):
        if message.get(field) is not None:
            plain[field] = message[field]
    return plain


def with_rule(messages: Sequence[dict[str, Any]], rule: str) -> tuple[dict[str, Any], ...]:
    """Plain messages whose system message says this too."""
    first, *others = messages
    if first["role"] != "system":
        return ({"role": "system", "content": rule}, *messages)
    return (first | {"content": f"{first['content']}\n\n{rule}"}, *others)


def _text(content: object, refusal: str | None) -> str:
    if isinstance(content, list):
        content = "".join(part[part["type"]] for part in content if part["type"] != IMAGE)
    return f"{content or ''}{refusal or ''}"


IMAGE_URL = text(pattern="^(https?://|data:image/)")
DETAIL = word_of("auto", "low", "high")
SEEN_AT = object_of({"url": needed(Rule(_url, IMAGE_URL)), "detail": DETAIL}, "url")
TEXT_PART = part({"type": const("text"), "text": STRING})
REFUSAL_PART = part({"type": const("refusal"), "refusal": STRING})
IMAGE_PART = part({"type": const(IMAGE), IMAGE: SEEN_AT.schema})


def content(*kinds: Schema) -> Schema:
    return either(STRING, array(either(*kinds) if kinds[1:] else kinds[0], minItems=1))


ASSISTANT: dict[str, Schema] = {
    "role": const("assistant"),
    "content": content(TEXT_PART, REFUSAL_PART),
    "refusal": STRING,
    "tool_calls": TOOL_CALLS,
    "name": STRING,
    "reasoning_content": STRING,
    "annotations": array(ANYTHING, maxItems=0),
    "provider_specific_fields": ANYTHING,
}
BESIDE = ("name", "reasoning_content", *OF_CLIENTS)
SEEN = content(TEXT_PART, IMAGE_PART)
CONTENT_AND_NAME = {"content": content(TEXT_PART), "name": STRING}
MESSAGES = array(
    either(
        part({"role": const("user"), "content": SEEN, "name": STRING}, "name"),
        part({"role": enumerated(("system", "developer"))} | CONTENT_AND_NAME, "name"),
        part({"role": const("tool"), "tool_call_id": STRING} | CONTENT_AND_NAME, "name"),
        *(part(ASSISTANT, *silent, *BESIDE) for silent in SILENT),
    ),
    minItems=1,
)
Messages = Annotated[list[dict[str, Any]], own(conversation, MESSAGES)]
