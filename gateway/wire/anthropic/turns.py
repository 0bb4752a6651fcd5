"""The turns of `/v1/messages` as the messages of a conversation.

Text, images, thinking, uses of tools and their results. A block that only a server with sources or
tools of its own could understand is refused, never dropped.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.errors import bad_request
from gateway.wire.anthropic.blocks import TEXTS, TURNS, is_image

Json = dict[str, Any]

FAILED = "Error: "
"""How a result that `is_error` begins: models are told in words."""
SEEN_BELOW = "The result is the image that follows."
"""What answers a call whose result is nothing but an image."""


class Turns:
    """Chat messages as far as they have come, and where each of their fields stood."""

    def __init__(self) -> None:
        self.messages: list[Json] = []
        self.origins: dict[str, str] = {}
        self._unseen: list[tuple[Json, str]] = []

    def say(self, role: str, parts: list[Json], origin: str) -> None:
        """Turns of one side that follow each other are one turn, as they are for Anthropic."""
        self.see_results()
        if role != "system" and self.messages and self.messages[-1]["role"] == role:
            self.messages[-1]["content"] += parts
            return
        self._add({"role": role, "content": parts}, origin)

    def see(self, image: Json, origin: str) -> None:
        self.say("user", [image], origin)
        where = f"messages[{len(self.messages) - 1}].content"
        place = f"{where}[{len(self.messages[-1]['content']) - 1}]"
        self.origins |= {place: origin, f"{place}.image_url": f"{origin}.source"}

    def see_results(self) -> None:
        """The images of results, once all calls of a turn have theirs."""
        unseen, self._unseen = self._unseen, []
        for image, origin in unseen:
            self.see(image, origin)

    def use(self, call: Json, origin: str) -> None:
        self.say("assistant", [], origin)
        every = f"messages[{len(self.messages) - 1}].tool_calls"
        calls = self.messages[-1].setdefault("tool_calls", [])
        where = f"{every}[{len(calls)}]"
        self.origins.setdefault(every, origin)
        self.origins |= {where: origin, f"{where}.function": origin}
        calls.append(call)

    def think(self, text: str, origin: str) -> None:
        """What servers outside are told that the assistant thought before it said the rest."""
        self.say("assistant", [], origin)
        if text:
            message = self.messages[-1]
            message["reasoning_content"] = message.get("reasoning_content", "") + text

    def result(self, message: Json, images: list[tuple[Json, str]], origin: str) -> None:
        """Chat has no place for images in a result: they follow as the user's."""
        where = f"messages[{len(self.messages)}]"
        self._add(message, origin)
        self.origins |= {
            f"{where}.tool_call_id": f"{origin}.tool_use_id",
            f"{where}.role": f"{origin}.tool_use_id",
        }
        self._unseen += images

    def _add(self, message: Json, origin: str) -> None:
        self.origins[f"messages[{len(self.messages)}]"] = origin
        self.messages.append(message)


def translated(system: Any, messages: Any) -> Turns:
    """Raises ApiError 400 naming the place in `system` or `messages`."""
    if system is not None:
        TEXTS.check("system", system)
    TURNS.check("messages", messages)
    turns = Turns()
    rules = [] if system is None else _texts(system)
    if any(rule["text"] for rule in rules):
        turns.say("system", rules, "system")
    for index, message in enumerate(messages):
        _add_message(turns, f"messages[{index}]", message)
    turns.see_results()
    if messages[-1]["role"] == "assistant":
        message = "This model cannot go on with an answer: the last message must be the user's."
        raise bad_request(message, f"messages[{len(messages) - 1}].role", "invalid_value")
    for message in turns.messages:
        if message["role"] == "assistant" and not message["content"]:
            message["content"] = None if message.get("tool_calls") else ""
    return turns


def _add_message(turns: Turns, name: str, message: Mapping[str, Any]) -> None:
    role, content = message["role"], message["content"]
    if role == "system" or isinstance(content, str):
        turns.say(role, _texts(content), name)
        return
    for index, block in enumerate(content):
        _add_block(turns, role, f"{name}.content[{index}]", block)


def _add_block(turns: Turns, role: str, name: str, block: Mapping[str, Any]) -> None:
    """Redacted thinking is left out, as Anthropic does with the thoughts of other models: only the
    server of that model can read it."""
    kind = block["type"]
    if kind == "text":
        turns.say(role, [_text(block)], name)
    elif kind == "image":
        turns.see(_image(block), name)
    elif kind == "tool_use":
        turns.use(_use(block), name)
    elif kind == "thinking":
        turns.think(block["thinking"], name)
    elif kind == "tool_result":
        turns.result(*_result(name, block), name)


def _texts(content: Any) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [_text(block) for block in content]


def _text(block: Mapping[str, Any]) -> Json:
    return {"type": "text", "text": block["text"]}


def _image(block: Mapping[str, Any]) -> Json:
    """By its address or as it is. Chat checks what either may be."""
    source = block["source"]
    if source["type"] == "url":
        return {"type": "image_url", "image_url": {"url": source.get("url")}}
    url = f"data:{source['media_type']};base64,{source['data']}"
    return {"type": "image_url", "image_url": {"url": url}}


def _use(block: Mapping[str, Any]) -> Json:
    arguments = msgspec.json.encode(block["input"]).decode()
    function = {"name": block.get("name"), "arguments": arguments}
    return {"id": block.get("id"), "type": "function", "function": function}


def _result(name: str, block: Mapping[str, Any]) -> tuple[Json, list[tuple[Json, str]]]:
    """The message that answers the call, and the images with their places."""
    texts, images = _parts(f"{name}.content", block.get("content"))
    if block.get("is_error"):
        texts.insert(0, {"type": "text", "text": FAILED})
    return {"role": "tool", "tool_call_id": block["tool_use_id"], "content": texts}, images


def _parts(name: str, content: Any) -> tuple[list[Json], list[tuple[Json, str]]]:
    """The texts of a result, and its images with their places."""
    blocks = content if isinstance(content, list) else []
    images = [(_image(b), f"{name}[{n}]") for n, b in enumerate(blocks) if is_image(b)]
    texts = [block for block in blocks if not is_image(block)] if images else content
    if images and not texts:
        return [{"type": "text", "text": SEEN_BELOW}], images
    return _texts(texts or ""), images
