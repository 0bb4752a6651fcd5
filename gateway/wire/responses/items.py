"""The `input` of `/v1/responses` as the messages of a conversation.

Messages, calls of functions and what these answered. An item that only a server with memory or
tools of its own could understand is refused, never dropped.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gateway.errors import ApiError, bad_request
from gateway.frame import Scored
from gateway.wire.checks import (
    empty_array,
    invalid_type,
    missing,
    one_of,
    only,
    require_known,
    string,
    text_up_to,
)

Json = dict[str, Any]

CALL_ID_MAX = 64
STATUSES = ("in_progress", "completed", "incomplete")
STATELESS = (
    "This service keeps no answers: send the messages and calls themselves instead of '{}' items."
)
KEPT_ELSEWHERE = ("item_reference", "compaction", "compaction_trigger")
"""Kinds that stand for what another server remembers."""
PARTS = {"assistant": ("output_text", "refusal"), "user": ("input_text", "input_image")}
TEXT_PARTS = {"input_text": "text", "output_text": "text", "refusal": "refusal"}


class Translation:
    """Chat messages as far as they have come, and where each of their fields stood."""

    def __init__(self) -> None:
        self.messages: list[Json] = []
        self.origins: dict[str, str] = {}
        self._calls_open = False
        self._thought = ""
        self._thought_at: str | None = None

    def think(self, text: str, origin: str) -> None:
        """Reasoning belongs to what the assistant says next."""
        self._thought += text
        self._thought_at = origin
        self._calls_open = False

    def require_said(self) -> None:
        """Raises ApiError 400 for reasoning without what it led to, as OpenAI does."""
        if self._thought_at is not None:
            message = (
                "An item of type 'reasoning' was provided without its required following item."
            )
            raise bad_request(message, self._thought_at, "invalid_value")

    def add(self, message: Json, origin: str) -> None:
        if self._thought_at is not None and message["role"] == "assistant":
            message = message | {"reasoning_content": self._thought}
            self._thought, self._thought_at = "", None
        self.require_said()
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
        for index, part in enumerate(parts):
            if part["type"] == "image_url":
                own = f"{origin}.content[{index}]"
                inner = f"{where}.content[{index}].image_url"
                self.origins |= {inner: own, f"{inner}.url": f"{own}.image_url"}

    def add_output(self, message: Json, origin: str) -> None:
        where = f"messages[{len(self.messages)}]"
        self.add(message, origin)
        self.origins |= {
            f"{where}.tool_call_id": f"{origin}.call_id",
            f"{where}.role": f"{origin}.call_id",
            f"{where}.content": f"{origin}.output",
        }


def translated(instructions: str | None, given: object) -> Translation:
    """Raises ApiError 400 naming the place in `input`."""
    found = Translation()
    if instructions is not None:
        found.add({"role": "system", "content": instructions}, "instructions")
    if isinstance(given, str):
        found.add({"role": "user", "content": given}, "input")
        found.origins[f"messages[{len(found.messages) - 1}].content"] = "input"
        return found
    if not isinstance(given, list):
        raise invalid_type("input", "a string or an array of items", given)
    if not given:
        raise empty_array("input")
    for index, item in enumerate(given):
        _add_item(found, f"input[{index}]", item)
    found.require_said()
    _require_answers(given)
    return found


def _add_item(found: Translation, name: str, item: object) -> None:
    if not isinstance(item, dict):
        raise invalid_type(name, "an object", item)
    kind = "message" if item.get("type") is None else item["type"]
    if kind == "message":
        found.add_message(_message(name, item), name)
    elif kind == "function_call":
        found.add_call(_call(name, item), name)
    elif kind == "function_call_output":
        found.add_output(_output(name, item), name)
    elif kind == "reasoning":
        found.think(_reasoning(name, item), name)
    elif kind in KEPT_ELSEWHERE:
        raise bad_request(STATELESS.format(kind), f"{name}.type", "unsupported_value")
    else:
        one_of("message", "function_call", "function_call_output", "reasoning")(
            f"{name}.type", kind
        )


def _message(name: str, item: Mapping[str, Any]) -> Json:
    require_known(name, item, "type", "role", "content", "id", "status")
    one_of("user", "assistant", "system", "developer")(f"{name}.role", item.get("role"))
    _bookkeeping(name, item)
    content = item.get("content")
    if content is None:
        raise missing(f"{name}.content")
    if isinstance(content, list):
        kinds = PARTS.get(item["role"], ("input_text",))
        content = [
            _part(f"{name}.content[{index}]", part, kinds) for index, part in enumerate(content)
        ]
    elif not isinstance(content, str):
        raise invalid_type(f"{name}.content", "a string or an array of parts", content)
    return {"role": item["role"], "content": content}


def _bookkeeping(name: str, item: Mapping[str, Any]) -> None:
    """What an earlier answer said of its own items, and clients send back with them."""
    if item.get("id") is not None:
        string(f"{name}.id", item["id"])
    if item.get("status") is not None:
        one_of(*STATUSES)(f"{name}.status", item["status"])


def _part(name: str, part: object, kinds: Sequence[str]) -> Json:
    if not isinstance(part, dict):
        raise invalid_type(name, "an object", part)
    one_of(*kinds)(f"{name}.type", part.get("type"))
    kind: str = part["type"]
    if kind == "input_image":
        return _image(name, part)
    field = TEXT_PARTS[kind]
    known = ("annotations", "logprobs") if kind == "output_text" else ()
    require_known(name, part, "type", field, *known)
    if part.get("annotations") is not None:
        only([])(f"{name}.annotations", part["annotations"])
    if part.get("logprobs") is not None:
        _scores(f"{name}.logprobs", part["logprobs"])
    string(f"{name}.{field}", part.get(field))
    return {"type": "refusal" if kind == "refusal" else "text", field: part[field]}


def _scores(name: str, value: object) -> None:
    """Of an earlier answer: nothing is made of them, but they are what they say they are."""
    try:
        msgspec.convert(value, list[Scored])
    except msgspec.ValidationError as wrong:
        raise invalid_type(name, "an array of log probabilities", value) from wrong


def _image(name: str, part: Mapping[str, Any]) -> Json:
    """What it may be is chat's to say."""
    require_known(name, part, "type", "image_url", "detail")
    if part.get("image_url") is None:
        raise missing(f"{name}.image_url")
    seen = {"url": part["image_url"], "detail": part.get("detail")}
    said = {field: value for field, value in seen.items() if value is not None}
    return {"type": "image_url", "image_url": said}


def _reasoning(name: str, item: Mapping[str, Any]) -> str:
    """As an earlier answer of ours said it. What another server has encrypted, or sums up of what
    it keeps, nobody here can read."""
    require_known(name, item, "type", "id", "status", "summary", "content", "encrypted_content")
    _bookkeeping(name, item)
    content = item.get("content")
    is_secret = item.get("encrypted_content") is not None
    if is_secret or item.get("summary") not in (None, []) or not content:
        raise bad_request(STATELESS.format("reasoning"), f"{name}.type", "unsupported_value")
    if not isinstance(content, list):
        raise invalid_type(f"{name}.content", "an array of parts", content)
    return "".join(_thought(f"{name}.content[{n}]", part) for n, part in enumerate(content))


def _thought(name: str, part: object) -> str:
    if not isinstance(part, dict):
        raise invalid_type(name, "an object", part)
    one_of("reasoning_text")(f"{name}.type", part.get("type"))
    require_known(name, part, "type", "text")
    string(f"{name}.text", part.get("text"))
    return str(part["text"])


def _call(name: str, item: Mapping[str, Any]) -> Json:
    require_known(name, item, "type", "id", "status", "call_id", "name", "arguments")
    _bookkeeping(name, item)
    function = {"name": item.get("name"), "arguments": item.get("arguments")}
    return {"id": _call_id(name, item), "type": "function", "function": function}


def _output(name: str, item: Mapping[str, Any]) -> Json:
    require_known(name, item, "type", "id", "status", "call_id", "output")
    _bookkeeping(name, item)
    output = item.get("output")
    if output is None:
        raise missing(f"{name}.output")
    if isinstance(output, list):
        parts = enumerate(output)
        output = [_part(f"{name}.output[{index}]", part, ("input_text",)) for index, part in parts]
    elif not isinstance(output, str):
        raise invalid_type(f"{name}.output", "a string or an array of parts", output)
    return {"role": "tool", "tool_call_id": _call_id(name, item), "content": output}


def _call_id(name: str, item: Mapping[str, Any]) -> str:
    if item.get("call_id") is None:
        raise missing(f"{name}.call_id")
    text_up_to(CALL_ID_MAX)(f"{name}.call_id", item["call_id"])
    return str(item["call_id"])


def _require_answers(items: Sequence[Mapping[str, Any]]) -> None:
    """Every call is answered and every answer has a call, by their `call_id`."""
    called: dict[str, int] = {}
    for index, item in enumerate(items):
        call_id = item.get("call_id", "")
        if item.get("type") == "function_call":
            called[call_id] = index
        elif item.get("type") == "function_call_output" and called.pop(call_id, None) is None:
            raise _unmatched("call", f"function call output with call_id {call_id}", index)
    for call_id, index in called.items():
        raise _unmatched("output", f"function call {call_id}", index)


def _unmatched(lacking: str, what: str, index: int) -> ApiError:
    message = f"No tool {lacking} found for {what}."
    return bad_request(message, f"input[{index}].call_id", "invalid_value")
