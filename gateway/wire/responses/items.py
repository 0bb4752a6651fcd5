"""The `input` of `/v1/responses` as the messages of a conversation.

Messages, calls of functions and what these answered. An item that only a server with memory or
tools of its own could understand is refused, never dropped.
"""

from collections.abc import Mapping
from typing import Any

from gateway.errors import bad_request
from gateway.wire.bodies.checks import (
    empty_array,
    invalid_type,
    missing,
    one_of,
    require_known,
    string,
)
from gateway.wire.responses.parts import bookkeeping, part
from gateway.wire.responses.past_calls import (
    CALLS,
    OUTPUTS,
    past_call,
    past_output,
    require_answers,
)
from gateway.wire.responses.tools import Toolbox

Json = dict[str, Any]

ADDITIONAL_TOOLS = "additional_tools"
PHASES = ("commentary", "final_answer")
"""What a message of the assistant's was in its answer: a hint to models that were trained on it."""
STATELESS = (
    "This service keeps no answers: send the messages and calls themselves instead of '{}' items."
)
KEPT_ELSEWHERE = ("item_reference", "compaction", "compaction_trigger")
"""Kinds that stand for what another server remembers."""
PARTS = {"assistant": ("output_text", "refusal"), "user": ("input_text", "input_image")}


class Translation:
    """Chat messages as far as they have come, and where each of their fields stood."""

    def __init__(self, toolbox: Toolbox) -> None:
        self.messages: list[Json] = []
        self.origins: dict[str, str] = {}
        self.toolbox = toolbox
        self._calls_open = False
        self._thought = ""
        self._thought_at: str | None = None
        self._unseen: list[tuple[Json, str]] = []

    def think(self, text: str, origin: str) -> None:
        """Reasoning belongs to what the assistant says next."""
        self._calls_open = False
        if text:
            self._thought += text
            self._thought_at = origin

    def end_thought(self) -> None:
        """Reasoning that the assistant said nothing after is a turn of its own."""
        if self._thought_at is not None:
            self.add({"role": "assistant", "content": ""}, self._thought_at)

    def add(self, message: Json, origin: str) -> None:
        if message["role"] != "tool":
            self.see_outputs()
        if message["role"] != "assistant":
            self.end_thought()
        elif self._thought:
            message = message | {"reasoning_content": self._thought}
            self._thought, self._thought_at = "", None
        self.origins[f"messages[{len(self.messages)}]"] = origin
        self.messages.append(message)
        self._calls_open = message["role"] == "assistant"

    def add_call(self, call: Json, origin: str) -> None:
        """To what the assistant has just said, since one turn may hold text and several calls."""
        if not self._calls_open:
            self.add({"role": "assistant", "content": None}, origin)
        calls = self.messages[-1].setdefault("tool_calls", [])
        every = f"messages[{len(self.messages) - 1}].tool_calls"
        where = f"{every}[{len(calls)}]"
        self.origins.setdefault(every, origin)
        self.origins |= {where: origin, f"{where}.function": origin}
        self.origins[f"{where}.id"] = f"{origin}.call_id"
        calls.append(call)

    def add_message(self, message: Json, origin: str) -> None:
        where = f"messages[{len(self.messages)}]"
        self.add(message, origin)
        parts = message["content"] if isinstance(message["content"], list) else ()
        for index, each in enumerate(parts):
            if each["type"] == "image_url":
                own = f"{origin}.content[{index}]"
                inner = f"{where}.content[{index}].image_url"
                self.origins |= {inner: own, f"{inner}.url": f"{own}.image_url"}

    def see_outputs(self) -> None:
        """The images of outputs follow them as the user's."""
        unseen, self._unseen = self._unseen, []
        if not unseen:
            return
        where = f"messages[{len(self.messages)}]"
        self.add({"role": "user", "content": [image for image, _ in unseen]}, unseen[0][1])
        for index, (_, own) in enumerate(unseen):
            place = f"{where}.content[{index}]"
            inner = f"{place}.image_url"
            self.origins |= {place: own, inner: own, f"{inner}.url": f"{own}.image_url"}

    def add_output(self, message: Json, images: list[tuple[Json, str]], origin: str) -> None:
        where = f"messages[{len(self.messages)}]"
        self.add(message, origin)
        self.origins |= {
            f"{where}.tool_call_id": f"{origin}.call_id",
            f"{where}.role": f"{origin}.call_id",
            f"{where}.content": f"{origin}.output",
        }
        self._unseen += images


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
        _offering(translation, name, item)
    elif kind == "reasoning":
        translation.think(_reasoning(name, item), name)
    elif kind in KEPT_ELSEWHERE:
        raise bad_request(STATELESS.format(kind), f"{name}.type", "unsupported_value")
    else:
        one_of("message", *CALLS, *OUTPUTS, ADDITIONAL_TOOLS, "reasoning")(f"{name}.type", kind)


def _offering(translation: Translation, name: str, item: Mapping[str, Any]) -> None:
    """Tools that are told of in the middle are on offer all along."""
    require_known(name, item, "type", "id", "status", "role", "tools")
    one_of("developer", "system")(f"{name}.role", item.get("role"))
    bookkeeping(name, item)
    if item.get("tools") is None:
        raise missing(f"{name}.tools")
    translation.toolbox.add(f"{name}.tools", item["tools"])


def _message(name: str, item: Mapping[str, Any]) -> Json:
    require_known(name, item, "type", "role", "content", "id", "status", "phase")
    one_of("user", "assistant", "system", "developer")(f"{name}.role", item.get("role"))
    bookkeeping(name, item)
    if item.get("phase") is not None:
        one_of(*PHASES)(f"{name}.phase", item["phase"])
    content = item.get("content")
    if content is None:
        raise missing(f"{name}.content")
    if isinstance(content, list):
        kinds = PARTS.get(item["role"], ("input_text",))
        content = [
            part(f"{name}.content[{index}]", each, kinds) for index, each in enumerate(content)
        ]
    elif not isinstance(content, str):
        raise invalid_type(f"{name}.content", "a string or an array of parts", content)
    return {"role": item["role"], "content": content}


def _reasoning(name: str, item: Mapping[str, Any]) -> str:
    """Its words, or else what sums them up. What another server has encrypted nobody here can
    read."""
    require_known(name, item, "type", "id", "status", "summary", "content", "encrypted_content")
    bookkeeping(name, item)
    if item.get("encrypted_content") is not None:
        raise bad_request(STATELESS.format("reasoning"), f"{name}.type", "unsupported_value")
    content = _thoughts(f"{name}.content", item.get("content"), "reasoning_text")
    summary = _thoughts(f"{name}.summary", item.get("summary"), "summary_text")
    return content or summary


def _thoughts(name: str, parts: object, kind: str) -> str:
    if parts is None:
        return ""
    if not isinstance(parts, list):
        raise invalid_type(name, "an array of parts", parts)
    return "".join(_thought(f"{name}[{n}]", each, kind) for n, each in enumerate(parts))


def _thought(name: str, value: object, kind: str) -> str:
    if not isinstance(value, dict):
        raise invalid_type(name, "an object", value)
    one_of(kind)(f"{name}.type", value.get("type"))
    require_known(name, value, "type", "text")
    string(f"{name}.text", value.get("text"))
    return str(value["text"])
