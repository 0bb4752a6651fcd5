"""`/v1/chat/completions` on the wire: a body checked, answers shaped as OpenAI's.

Nothing of a body is dropped silently. Knows no prices, no pools and no HTTP beyond the body.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from billing.types import Usage
from gateway.errors import bad_request
from gateway.frame import Choice, Logprobs
from gateway.tokens import TokenCounter, UnrenderableConversation
from gateway.wire.answer import AnswerHead, Envelope, Notes
from gateway.wire.checks import (
    GENERATED,
    Check,
    boolean,
    checked,
    integer,
    invalid_type,
    only,
    require_together,
    sampling,
    string,
)
from gateway.wire.gathered import Gathered
from gateway.wire.messages import conversation, plain_message
from gateway.wire.request import GeneratingRequest, generating, outside_stream
from routing.types import Task

ID_PREFIX = "chatcmpl"
METADATA_MAX = 16
TOP_LOGPROBS_MAX = 20


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages that are to be answered; `sampling` goes to the engine as it is. `logprobs` is how
    many of the likeliest tokens each token comes with, None where it comes alone."""

    task: ClassVar[Task] = Task.GENERATE
    param: ClassVar[str] = "messages"
    path: ClassVar[str] = "/chat/completions"
    messages: tuple[dict[str, Any], ...]
    sampling: dict[str, Any]
    choices: int
    logprobs: int | None

    def prompt_tokens(self, tokens: TokenCounter) -> Sequence[int]:
        try:
            return (tokens.count(self.messages),)
        except UnrenderableConversation as refused:
            raise bad_request(str(refused), self.param) from refused

    def own_body(self, output_tokens_max: int) -> dict[str, Any]:
        return self._body(output_tokens_max) | {"logprobs": self.logprobs}

    def outside_body(self, output_tokens_max: int) -> dict[str, Any]:
        asked = self.logprobs is not None
        scored = {"logprobs": True, "top_logprobs": self.logprobs} if asked else {}
        return outside_stream(self._body(output_tokens_max) | scored)

    def _body(self, output_tokens_max: int) -> dict[str, Any]:
        return {
            "messages": self.messages,
            "max_tokens": output_tokens_max,
            "n": self.choices,
            **self.sampling,
        }


def parse_chat(body: bytes) -> GeneratingRequest:
    """Raises ApiError 400 naming the parameter, in OpenAI's words."""
    fields = checked(body, CHECKS, "model", "messages")
    require_together(fields, "stream_options", "stream")
    if fields.get("top_logprobs"):
        require_together(fields, "top_logprobs", "logprobs")
    wanted = Conversation(
        messages=tuple(plain_message(m) for m in fields["messages"]),
        sampling=sampling(fields),
        choices=fields.get("n") or 1,
        logprobs=(fields.get("top_logprobs") or 0) if fields.get("logprobs") else None,
    )
    form = ChatForm(wanted.choices, scored=wanted.logprobs is not None)
    ceiling = fields.get("max_completion_tokens")
    output_tokens_max = ceiling if ceiling is not None else fields.get("max_tokens")
    return generating(fields, wanted, form, output_tokens_max)


@dataclass(frozen=True, slots=True)
class ChatForm:
    """`scored`: log probabilities were asked for."""

    choices: int
    scored: bool

    def whole(
        self, head: AnswerHead, choices: Sequence[Gathered], usage: Usage, cost: str
    ) -> bytes:
        shapes = [self._choice(choice) for choice in choices]
        return Envelope(head, ID_PREFIX, "chat.completion").whole(shapes, usage, cost)

    def _choice(self, choice: Gathered) -> dict[str, Any]:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": choice.text,
            "refusal": None,
            "annotations": [],
        }
        return {
            "index": choice.index,
            "message": message,
            "logprobs": _scores(choice.logprobs) if self.scored else None,
            "finish_reason": choice.finish_reason,
        }

    def chunks(self, head: AnswerHead, includes_usage: bool) -> "ChatChunks":
        return ChatChunks(self, Envelope(head, ID_PREFIX, "chat.completion.chunk", includes_usage))


class ChatChunks:
    """One stream: a role for each choice, text, and a finish without text."""

    def __init__(self, form: ChatForm, envelope: Envelope) -> None:
        self._form = form
        self._envelope = envelope
        self.usage = envelope.usage

    def opening(self, notes: Notes | None) -> Iterator[bytes]:
        delta = {"role": "assistant", "content": "", "refusal": None}
        for index in range(self._form.choices):
            yield self._chunk(index, delta, notes=None if index else notes)

    def piece(self, choice: Choice, notes: Notes | None) -> Iterator[bytes]:
        scores = _scores(choice.logprobs) if self._form.scored else None
        if choice.content or scores:
            delta = {k: v for k, v in choice.delta.items() if k != "role" and v}
            yield self._chunk(choice.index, delta, scores=scores)
        if choice.finish_reason is not None:
            yield self._chunk(choice.index, {}, choice.finish_reason, notes=notes)

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


def _metadata(name: str, value: object) -> None:
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise invalid_type(name, "an object with string values", value)
    if len(value) > METADATA_MAX:
        raise bad_request(f"'{name}' takes at most {METADATA_MAX} pairs.", name, "invalid_value")


CHECKS: dict[str, Check] = GENERATED | {
    "messages": conversation,
    "max_completion_tokens": integer(1, 2**31),
    "logprobs": boolean,
    "top_logprobs": integer(0, TOP_LOGPROBS_MAX),
    "safety_identifier": string,
    "metadata": _metadata,
    "store": only(False),
    "response_format": only({"type": "text"}),
    "modalities": only(["text"]),
    "tools": only([]),
    "tool_choice": only("none"),
    "parallel_tool_calls": only(True),
    "functions": only([]),
    "function_call": only("none"),
    "audio": only(None),
    "prediction": only(None),
    "reasoning_effort": only(None),
    "verbosity": only(None),
    "web_search_options": only(None),
    "prompt_cache_key": string,
    "prompt_cache_retention": only(None),
}
