"""The turns of `/v1/messages` as the messages of a conversation.

Text, images, thinking, uses of tools and their results. A block that only a server with sources or
tools of its own could understand is refused, never dropped.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from gateway.errors import bad_request
from gateway.wire.bodies.checks import (
    boolean,
    empty_array,
    invalid_type,
    missing,
    one_of,
    only,
    require_known,
    string,
)
from gateway.wire.bodies.rules import TEXT, in_words, object_of, the, word_of

Json = dict[str, Any]

KINDS = {
    "assistant": ("text", "tool_use", "thinking", "redacted_thinking"),
    "user": ("text", "image", "tool_result"),
}
IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
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


def translated(system: object, messages: object) -> Turns:
    """Raises ApiError 400 naming the place in `messages`."""
    turns = Turns()
    rules = [] if system is None else _texts("system", system)
    if any(rule["text"] for rule in rules):
        turns.say("system", rules, "system")
    if not isinstance(messages, list):
        raise invalid_type("messages", "an array of objects", messages)
    if not messages:
        raise empty_array("messages")
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


def _add_message(turns: Turns, name: str, message: object) -> None:
    if not isinstance(message, dict):
        raise invalid_type(name, "an object", message)
    require_known(name, message, "role", "content")
    one_of("user", "assistant", "system")(f"{name}.role", message.get("role"))
    role, content = message["role"], message.get("content")
    if role == "system" or not isinstance(content, list):
        turns.say(role, _texts(f"{name}.content", content), name)
        return
    if not content:
        raise empty_array(f"{name}.content")
    for index, block in enumerate(content):
        _add_block(turns, role, f"{name}.content[{index}]", block)


def _add_block(turns: Turns, role: str, name: str, block: object) -> None:
    if not isinstance(block, dict):
        raise invalid_type(name, "an object", block)
    kind = block.get("type")
    one_of(*KINDS[role])(f"{name}.type", kind)
    if kind == "text":
        turns.say(role, [_text(name, block)], name)
    elif kind == "image":
        turns.see(_image(name, block), name)
    elif kind == "tool_use":
        turns.use(_use(name, block), name)
    elif kind == "thinking":
        turns.think(_thinking(name, block), name)
    elif kind == "redacted_thinking":
        _redacted(name, block)
    else:
        turns.result(*_result(name, block), name)


def _texts(name: str, content: object) -> list[Json]:
    if content is None:
        raise missing(name)
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise invalid_type(name, "a string or an array of blocks", content)
    return [_text(f"{name}[{index}]", block) for index, block in enumerate(content)]


def _text(name: str, block: object) -> Json:
    if not isinstance(block, dict):
        raise invalid_type(name, "an object", block)
    one_of("text")(f"{name}.type", block.get("type"))
    require_known(name, block, "type", "text", "cache_control", "citations")
    if block.get("citations") is not None:
        only([])(f"{name}.citations", block["citations"])
    _cache_hint(name, block)
    string(f"{name}.text", block.get("text"))
    return {"type": "text", "text": block["text"]}


def _image(name: str, block: Mapping[str, Any]) -> Json:
    """By its address or as it is; what either may be is chat's to say."""
    require_known(name, block, "type", "source", "cache_control")
    _cache_hint(name, block)
    source, where = block.get("source"), f"{name}.source"
    if not isinstance(source, dict):
        raise invalid_type(where, "an object", source)
    one_of("base64", "url")(f"{where}.type", source.get("type"))
    if source["type"] == "url":
        require_known(where, source, "type", "url")
        return {"type": "image_url", "image_url": {"url": source.get("url")}}
    require_known(where, source, "type", "media_type", "data")
    one_of(*IMAGES)(f"{where}.media_type", source.get("media_type"))
    string(f"{where}.data", source.get("data"))
    url = f"data:{source['media_type']};base64,{source['data']}"
    return {"type": "image_url", "image_url": {"url": url}}


def _use(name: str, block: Mapping[str, Any]) -> Json:
    require_known(name, block, "type", "id", "name", "input", "cache_control", "caller")
    if block.get("caller") is not None:
        only({"type": "direct"})(f"{name}.caller", block["caller"])
    _cache_hint(name, block)
    arguments = block.get("input")
    if not isinstance(arguments, dict):
        raise (
            missing(f"{name}.input")
            if arguments is None
            else invalid_type(f"{name}.input", "an object", arguments)
        )
    function = {"name": block.get("name"), "arguments": msgspec.json.encode(arguments).decode()}
    return {"id": block.get("id"), "type": "function", "function": function}


def _thinking(name: str, block: Mapping[str, Any]) -> str:
    """Its signature is whoever's thought it was; nobody here could check it."""
    require_known(name, block, "type", "thinking", "signature")
    string(f"{name}.thinking", block.get("thinking"))
    if block.get("signature") is not None:
        string(f"{name}.signature", block["signature"])
    return str(block["thinking"])


def _redacted(name: str, block: Mapping[str, Any]) -> None:
    """Another model's thought that only its server can read: left out, as Anthropic does for
    thoughts of other models."""
    require_known(name, block, "type", "data")
    string(f"{name}.data", block.get("data"))


def _result(name: str, block: Mapping[str, Any]) -> tuple[Json, list[tuple[Json, str]]]:
    """The message that answers the call, and the images with their places."""
    require_known(name, block, "type", "tool_use_id", "content", "is_error", "cache_control")
    _cache_hint(name, block)
    if block.get("tool_use_id") is None:
        raise missing(f"{name}.tool_use_id")
    string(f"{name}.tool_use_id", block["tool_use_id"])
    texts, images = _shown(f"{name}.content", block.get("content"))
    if block.get("is_error") is not None:
        boolean(f"{name}.is_error", block["is_error"])
    if block.get("is_error"):
        texts.insert(0, {"type": "text", "text": FAILED})
    message = {"role": "tool", "tool_call_id": block["tool_use_id"], "content": texts}
    return message, images


def _shown(name: str, content: object) -> tuple[list[Json], list[tuple[Json, str]]]:
    """The texts of a result, and its images with their places."""
    blocks = content if isinstance(content, list) else []
    places = [index for index, block in enumerate(blocks) if _is_image(block)]
    texts = [block for block in blocks if not _is_image(block)] if places else content
    images = [(_image(at, blocks[n]), at) for n in places for at in [f"{name}[{n}]"]]
    if images and not texts:
        return [{"type": "text", "text": SEEN_BELOW}], images
    return _texts(name, "" if texts in (None, []) else texts), images


def _is_image(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == "image"


def _cache_hint(name: str, block: Mapping[str, Any]) -> None:
    if block.get("cache_control") is not None:
        CACHE.check(f"{name}.cache_control", block["cache_control"])


CACHE = object_of({"type": the("ephemeral"), "scope": TEXT, "ttl": word_of("5m", "1h")}, "type")
"""A hint that nothing depends on: every prefix is looked for in the cache, and kept as long as
there is room."""
CacheControl = Annotated[dict[str, Any], in_words(CACHE)]
