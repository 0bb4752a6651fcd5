"""`/v1/chat/completions` on the wire: a body checked, answers shaped as OpenAI's.

Nothing of a body is dropped silently. Knows no prices, no pools and no HTTP beyond the body.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from billing.types import Usage
from gateway.call.frame import Choice, Logprobs
from gateway.call.request import GeneratingRequest
from gateway.errors import bad_request
from gateway.wire.answer import AnswerHead, Envelope, Notes, envelope_fields, whole_answer
from gateway.wire.bodies.chat_body import CHAT, ChatBody, require_agreement
from gateway.wire.bodies.checks import Takes, takes_no_more
from gateway.wire.bodies.conversation import conversation_of, generating_chat
from gateway.wire.call_pieces import CallPieces
from gateway.wire.prompt_logprobs import ranked
from gateway.wire.whole_choice import WholeChoice

ID_PREFIX = "chatcmpl"
TWO_CEILINGS = (
    "Setting 'max_tokens' and 'max_completion_tokens' to different values at the same time is not"
    " supported."
)


def parse_chat(body: bytes, takes: Takes = takes_no_more) -> GeneratingRequest:
    """Raises ApiError 400 naming the parameter, in OpenAI's words."""
    fields, extra = CHAT.read(body, takes)
    require_agreement(fields)
    conversation = conversation_of(fields, extra)
    form = ChatForm(
        conversation.choices,
        scored=conversation.logprobs is not None,
        scores_prompt=conversation.prompt_logprobs is not None,
    )
    return generating_chat(fields, conversation, form, output_tokens_max(fields))


def output_tokens_max(fields: ChatBody) -> int | None:
    """The ceiling by its newer or its older name; raises ApiError 400 where they contradict."""
    newer, older = fields.max_completion_tokens, fields.max_tokens
    if newer is None:
        return older
    if older not in (None, newer):
        raise bad_request(TWO_CEILINGS, "max_tokens", "invalid_parameter_combination")
    return newer


class ChatForm(msgspec.Struct, frozen=True):
    """`scored`: log probabilities were asked for; `scores_prompt`: those of the prompt."""

    choices: int
    scored: bool
    scores_prompt: bool = False

    def whole(
        self, head: AnswerHead, choices: Sequence[WholeChoice], usage: Usage, cost: str
    ) -> bytes:
        shapes = [self._choice(choice) for choice in choices]
        fields = envelope_fields(head, ID_PREFIX, "chat.completion")
        if self.scores_prompt:
            fields["prompt_logprobs"] = ranked(choices[0].prompt_logprobs)
        return whole_answer(fields, shapes, usage, cost)

    def _choice(self, choice: WholeChoice) -> dict[str, Any]:
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
        self._calls = [CallPieces() for _ in range(form.choices)]
        self.end = envelope.end
        self.count = envelope.count
        self.failed = envelope.failed

    def opening(self, notes: Notes | None) -> Iterator[bytes]:
        delta = {"role": "assistant", "content": "", "refusal": None}
        for index in range(self._form.choices):
            yield self._chunk(index, delta, notes=None if index else notes)

    def piece(self, choice: Choice, notes: Notes | None) -> list[bytes]:
        scores, events = _scores(choice.logprobs) if self._form.scored else None, []
        is_last = choice.finish_reason is not None
        if not is_last and scores is None and (text := choice.only_text) is not None:
            return [self._envelope.text_chunk(choice.index, text)]
        if (delta := self._delta(choice)) or scores:
            events.append(self._chunk(choice.index, delta, scores=scores))
        if is_last:
            events.append(self._chunk(choice.index, {}, choice.finish_reason, notes=notes))
        return events

    def _delta(self, choice: Choice) -> dict[str, Any]:
        delta = choice.full_delta
        delta.pop("tool_calls", None)
        if calls := self._calls[choice.index].next(choice):
            delta["tool_calls"] = [call.shape() for call in calls]
        return delta

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
