"""How answers of `/v1/messages` look: the Message object, whole or at the beginning of its
stream."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from billing.types import Usage
from gateway.wire.answer import AnswerHead
from gateway.wire.anthropic.stream import MessageChunks
from gateway.wire.whole_choice import WholeChoice

Json = dict[str, Any]

STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}
TIERS = {"priority": "priority"}
"""The one of ours that Anthropic names as well; every other is its standard one."""


@dataclass(frozen=True, slots=True)
class MessageForm:
    """`stops` are the caller's stop sequences. `tells_thoughts`: thinking was asked for.
    `tells_edits`: edits of the conversation were, and what became of them is told."""

    stops: tuple[str, ...]
    tells_thoughts: bool = False
    tells_edits: bool = False

    def whole(
        self, head: AnswerHead, choices: Sequence[WholeChoice], usage: Usage, cost: str
    ) -> bytes:
        [choice] = choices
        uses = [_use(call) for call in choice.tool_calls]
        text = choice.text + (choice.refusal or "")
        ending = self.ended(choice.finish_reason, choice.stop_reason, used_tools=bool(uses))
        message = self.begun(head) | ending | self.edited()
        thoughts = [thinking_block(choice.reasoning)] if self._thought(choice) else []
        message["content"] = thoughts + ([text_block(text)] if text else []) + uses
        message["usage"] = usage_shape(usage, head.service_tier) | {"cost": cost}
        return msgspec.json.encode(message)

    def _thought(self, choice: WholeChoice) -> bool:
        return self.tells_thoughts and bool(choice.reasoning)

    def chunks(self, head: AnswerHead, includes_usage: bool) -> MessageChunks:
        return MessageChunks(self, head)

    def begun(self, head: AnswerHead) -> Json:
        return {
            "id": f"msg_{head.id}",
            "type": "message",
            "role": "assistant",
            "model": head.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage_shape(head.begun_with, head.service_tier),
        }

    def ended(self, finish_reason: str, stop: object, *, used_tools: bool) -> Json:
        """Why it stopped; `stop` is what the server that ran it says of it."""
        reason = STOP_REASONS.get(finish_reason, "end_turn")
        if reason == "end_turn" and used_tools:
            reason = "tool_use"
        elif reason == "end_turn" and stop in self.stops:
            return {"stop_reason": "stop_sequence", "stop_sequence": stop}
        return {"stop_reason": reason, "stop_sequence": None}

    def edited(self) -> Json:
        """That no edit was applied, where some were asked for."""
        return {"context_management": {"applied_edits": []}} if self.tells_edits else {}


def text_block(text: str) -> Json:
    return {"type": "text", "text": text}


def thinking_block(text: str) -> Json:
    """Anthropic signs what its models think; nobody here does."""
    return {"type": "thinking", "thinking": text, "signature": ""}


def _use(call: Json) -> Json:
    function = call["function"]
    arguments = _object(function["arguments"])
    return {"type": "tool_use", "id": call["id"], "name": function["name"], "input": arguments}


def _object(arguments: str) -> Json:
    """What a call is given; nothing where it was cut in the middle, as `stop_reason` then says."""
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def usage_shape(usage: Usage, service_tier: str) -> Json:
    """Anthropic's classes are disjoint, as ours are."""
    return {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cached_input,
        "output_tokens": usage.completion,
        "service_tier": TIERS.get(service_tier, "standard"),
    }
