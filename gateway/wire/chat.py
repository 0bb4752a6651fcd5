"""`/v1/chat/completions` on the wire: a body checked, answers shaped as OpenAI's.

Nothing of a body is dropped silently. Knows no prices, no pools and no HTTP beyond the body.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from billing.types import Usage
from gateway.errors import bad_request
from gateway.frame import Choice, Logprobs
from gateway.wire.answer import AnswerHead, Envelope, Notes, envelope_fields, whole_answer
from gateway.wire.checks import json_object
from gateway.wire.conversation import (
    CHECKS,
    Conversation,
    check_conversation,
    conversation_of,
)
from gateway.wire.gathered import Gathered
from gateway.wire.request import GeneratingRequest, generating

__all__ = [
    "CHECKS",
    "ChatForm",
    "Conversation",
    "check_conversation",
    "conversation_of",
    "output_tokens_max",
    "parse_chat",
]

ID_PREFIX = "chatcmpl"
TWO_CEILINGS = (
    "Setting 'max_tokens' and 'max_completion_tokens' to different values at the same time is not"
    " supported."
)


def parse_chat(body: bytes) -> GeneratingRequest:
    """Raises ApiError 400 naming the parameter, in OpenAI's words."""
    fields = json_object(body)
    check_conversation(fields)
    wanted = conversation_of(fields)
    form = ChatForm(wanted.choices, scored=wanted.logprobs is not None)
    return generating(fields, wanted, form, output_tokens_max(fields))


def output_tokens_max(fields: Mapping[str, Any]) -> int | None:
    """The ceiling by its newer or its older name; raises ApiError 400 where they contradict."""
    newer, older = fields.get("max_completion_tokens"), fields.get("max_tokens")
    if newer is None:
        return older
    if older not in (None, newer):
        raise bad_request(TWO_CEILINGS, "max_tokens", "invalid_parameter_combination")
    return int(newer)


class ChatForm(msgspec.Struct, frozen=True):
    """`scored`: log probabilities were asked for."""

    choices: int
    scored: bool

    def whole(
        self, head: AnswerHead, choices: Sequence[Gathered], usage: Usage, cost: str
    ) -> bytes:
        shapes = [self._choice(choice) for choice in choices]
        fields = envelope_fields(head, ID_PREFIX, "chat.completion")
        return whole_answer(fields, shapes, usage, cost)

    def _choice(self, choice: Gathered) -> dict[str, Any]:
        text, refusal = choice.text, choice.refusal
        message: dict[str, Any] = {
            "role": "assistant",
            "content": text,
            "refusal": refusal,
            "annotations": [],
        }
        if calls := choice.tool_calls:
            message["tool_calls"] = calls
        if reasoning := choice.reasoning:
            message["reasoning_content"] = reasoning
        if not text and (calls or refusal):
            message["content"] = None
        return {
            "index": choice.index,
            "message": message,
            "logprobs": _scores(choice.logprobs) if self.scored else None,
            "finish_reason": choice.finish_reason,
        }

    def chunks(self, head: AnswerHead, includes_usage: bool) -> "ChatChunks":
        fields = envelope_fields(head, ID_PREFIX, "chat.completion.chunk")
        return ChatChunks(self, Envelope(fields, includes_usage))


class ChatChunks:
    """One stream: a role for each choice, text, and a finish without text."""

    def __init__(self, form: ChatForm, envelope: Envelope) -> None:
        self._form = form
        self._envelope = envelope
        self.end = envelope.end
        self.failed = envelope.failed

    def opening(self, notes: Notes | None) -> Iterator[bytes]:
        delta = {"role": "assistant", "content": "", "refusal": None}
        for index in range(self._form.choices):
            yield self._chunk(index, delta, notes=None if index else notes)

    def piece(self, choice: Choice, notes: Notes | None) -> list[bytes]:
        scores, found = _scores(choice.logprobs) if self._form.scored else None, []
        if scores is None and (text := choice.only_text) is not None:
            found.append(self._envelope.text_chunk(choice.index, text))
        elif (delta := choice.said) or scores:
            if "tool_calls" in delta:
                delta["tool_calls"] = [call.shape() for call in choice.tool_calls]
            found.append(self._chunk(choice.index, delta, scores=scores))
        if choice.finish_reason is not None:
            found.append(self._chunk(choice.index, {}, choice.finish_reason, notes=notes))
        return found

    def _chunk(
        self,
        index: int,
        delta: dict[str, Any],
        finish_reason: str | None = None,
        *,
        scores: dict[str, Any] | None = None,
        notes: Notes | None = None,
    ) -> bytes:
        choice = {
            "index": index,
            "delta": delta,
            "logprobs": scores,
            "finish_reason": finish_reason,
        }
        return self._envelope.chunk(choice, notes)


def _scores(logprobs: Logprobs | None) -> dict[str, Any] | None:
    if logprobs is None or logprobs.content is None:
        return None
    return {"content": logprobs.content, "refusal": None}
