"""The `input` of `/v1/responses` as the messages of a conversation.

Messages, calls of functions and what these answered. An item that only a server with memory or
tools of its own could understand is refused, never dropped.
"""

from collections.abc import Mapping
from typing import Any

from gateway.errors import bad_request
from gateway.wire.bodies.checks import empty_array, invalid_type, one_of
from gateway.wire.bodies.rules import (
    TEXT,
    Rule,
    elsewhere,
    object_of,
    unchecked,
    union_of,
    variant,
    word_of,
)
from gateway.wire.json_schema import STRING, array, const, either
from gateway.wire.responses.parts import (
    BOOKED,
    INPUT_IMAGE,
    INPUT_TEXT,
    OUTPUT_TEXT,
    REFUSAL,
    chat_content,
    content_of,
)
from gateway.wire.responses.past_calls import (
    CALLS,
    OUTPUTS,
    SCHEMAS,
    past_call,
    past_output,
    require_answers,
)
from gateway.wire.responses.tools import TOOL, Toolbox
from gateway.wire.responses.translation import Translation

Json = dict[str, Any]

ADDITIONAL_TOOLS = "additional_tools"
STATELESS = (
    "This service keeps no answers: send the messages and calls themselves instead of '{}' items."
)
KEPT_ELSEWHERE = ("item_reference", "compaction", "compaction_trigger")
"""Kinds that stand for what another server remembers."""
ROLE = one_of("user", "assistant", "system", "developer")
PHASE = word_of("commentary", "final_answer")
"""What a message of the assistant's was in its answer: a hint to models that were trained on it."""


def _message_of(role: str, content: Rule) -> Rule:
    fields = {
        "type": unchecked(const("message")),
        "role": Rule(ROLE, const(role)),
        "content": content,
        "phase": PHASE,
    }
    return object_of(BOOKED | fields, "role", "content", first=("role", *BOOKED, "phase"))


MESSAGES = {
    "user": _message_of("user", content_of(INPUT_TEXT, INPUT_IMAGE)),
    "assistant": _message_of("assistant", content_of(OUTPUT_TEXT, REFUSAL)),
    "system": _message_of("system", content_of(INPUT_TEXT)),
    "developer": _message_of("developer", content_of(INPUT_TEXT)),
}


def _thoughts_of(kind: str) -> Rule:
    part = union_of(variant(kind, {"text": TEXT}, "text"))

    def check(name: str, value: object) -> None:
        if not isinstance(value, list):
            raise invalid_type(name, "an array of parts", value)
        for index, each in enumerate(value):
            part.check(f"{name}[{index}]", each)

    return Rule(check, array(part.schema))


THOUGHTS = _thoughts_of("reasoning_text")
REASONING = object_of(
    BOOKED
    | {
        "type": unchecked(const("reasoning")),
        "content": THOUGHTS,
        "summary": _thoughts_of("summary_text"),
    },
    "type",
)
MORE_TOOLS = object_of(
    BOOKED
    | {
        "type": unchecked(const(ADDITIONAL_TOOLS)),
        "role": word_of("developer", "system"),
        "tools": elsewhere(array(TOOL)),
    },
    *("type", "role", "tools"),
    first=("role",),
)
INPUT = either(
    STRING,
    array(
        either(
            *(rule.schema for rule in MESSAGES.values()),
            REASONING.schema,
            *SCHEMAS,
            MORE_TOOLS.schema,
        ),
        minItems=1,
    ),
)


def translated(instructions: str | None, input_: object, toolbox: Toolbox) -> Translation:
    """Raises ApiError 400 naming the place in `input`; tools that it has join those of the box."""
    translation = Translation(toolbox)
    if instructions:
        translation.add({"role": "system", "content": instructions}, "instructions")
    if isinstance(input_, str):
        translation.add({"role": "user", "content": input_}, "input")
        translation.origins[f"messages[{len(translation.messages) - 1}].content"] = "input"
        return translation
    if not isinstance(input_, list):
        raise invalid_type("input", "a string or an array of items", input_)
    if not input_:
        raise empty_array("input")
    for index, item in enumerate(input_):
        _add_item(translation, f"input[{index}]", item)
    translation.end_thought()
    translation.see_outputs()
    require_answers(input_)
    return translation


def _add_item(translation: Translation, name: str, item: object) -> None:
    if not isinstance(item, dict):
        raise invalid_type(name, "an object", item)
    kind = "message" if item.get("type") is None else item["type"]
    if kind == "message":
        translation.add_message(_message(name, item), name)
    elif kind in CALLS:
        translation.add_call(past_call(name, item), name)
    elif kind in OUTPUTS:
        translation.add_output(*past_output(name, item), name)
    elif kind == ADDITIONAL_TOOLS:
        MORE_TOOLS.check(name, item)
        translation.toolbox.add(f"{name}.tools", item["tools"])
    elif kind == "reasoning":
        translation.think(_reasoning(name, item), name)
    elif kind in KEPT_ELSEWHERE:
        raise bad_request(STATELESS.format(kind), f"{name}.type", "unsupported_value")
    else:
        one_of("message", *CALLS, *OUTPUTS, ADDITIONAL_TOOLS, "reasoning")(f"{name}.type", kind)


def _message(name: str, item: Mapping[str, Any]) -> Json:
    """Every rule refuses a role that there is not."""
    role = item.get("role")
    rule = MESSAGES.get(role) if isinstance(role, str) else None
    (rule or MESSAGES["user"]).check(name, item)
    return {"role": role, "content": chat_content(item["content"])}


def _reasoning(name: str, item: Mapping[str, Any]) -> str:
    """Its words, or else what sums them up. What another server has encrypted nobody here can
    read."""
    if item.get("encrypted_content") is not None:
        REASONING.check(name, {k: v for k, v in item.items() if k not in UNREAD})
        raise bad_request(STATELESS.format("reasoning"), f"{name}.type", "unsupported_value")
    REASONING.check(name, item)
    content, summary = item.get("content") or (), item.get("summary") or ()
    return "".join(part["text"] for part in content) or "".join(part["text"] for part in summary)


UNREAD = ("encrypted_content", "content", "summary")
