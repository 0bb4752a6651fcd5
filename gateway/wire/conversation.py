"""A conversation that is to be answered, from OpenAI's chat fields: the canonical form of every
route that has messages. Nothing of a body is dropped silently."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from gateway.errors import bad_request
from gateway.tokens import CheckpointTokens, TokenCounter, UnrenderableConversation
from gateway.wire.checks import (
    GENERATED,
    Check,
    boolean,
    check_fields,
    integer,
    invalid_type,
    only,
    require_together,
    sampling,
    text_up_to,
    unsupported,
)
from gateway.wire.messages import (
    OF_CLIENTS,
    characters,
    conversation,
    images,
    images_not_taken,
    is_plain,
    plain_message,
    reasoning,
    with_rule,
)
from gateway.wire.prompts import check_biased, check_biases
from gateway.wire.request import outside_stream
from gateway.wire.response_format import described, response_format
from gateway.wire.tools import require_offered, tool_choice, tools
from routing.types import Task
from workers.templates import ToolsUnsupported

METADATA_MAX = 16
METADATA_KEY_MAX, METADATA_VALUE_MAX = 64, 512
TOP_LOGPROBS_MAX = 20
PROMPT_CACHE_KEY_MAX = 64
SAFETY_IDENTIFIER_MAX = 64
LABELS = ("user", "safety_identifier", "prompt_cache_key", "metadata")
"""What says who asks and why; a server outside may want to know, a model does not."""


class Conversation(msgspec.Struct, frozen=True):
    """Messages that are to be answered. `messages` are plain (see `plain_message`), `said` as they
    came, `reasoning` what earlier answers thought, which servers outside are told;
    `sampling` goes to the engine as it is. `logprobs` is how many of the likeliest tokens
    each token comes with, None where it comes alone. `response_format` is None for any text."""

    task: ClassVar[Task] = Task.GENERATE
    param: ClassVar[str] = "messages"
    path: ClassVar[str] = "/chat/completions"
    messages: tuple[dict[str, Any], ...]
    sampling: dict[str, Any]
    choices: int
    logprobs: int | None
    tools: tuple[dict[str, Any], ...] = ()
    tool_choice: str | dict[str, Any] = "auto"
    parallel_tool_calls: bool = True
    response_format: dict[str, Any] | None = None
    said: tuple[dict[str, Any], ...] = ()
    labels: Mapping[str, Any] | None = None
    images: tuple[str, ...] = ()
    reasoning: tuple[str, ...] = ()

    @property
    def offered(self) -> tuple[dict[str, Any], ...]:
        """The tools that a model is told of: none where it may call none."""
        return () if self.tool_choice == "none" else self.tools

    def prompt_tokens(self, tokens: TokenCounter) -> Sequence[int]:
        check_biased(self.sampling, tokens)
        try:
            counted = tokens.count(self.messages, self.offered) + self._seen(tokens)
        except ToolsUnsupported as untold:
            raise unsupported(untold.param) from untold
        except UnrenderableConversation as refused:
            raise bad_request(str(refused), self.param) from refused
        if self.reasoning and not isinstance(tokens, CheckpointTokens):
            counted += sum(map(tokens.count_text, self.reasoning))
        return (counted,)

    def longest_characters(self) -> int:
        return characters(self.messages)

    def _seen(self, tokens: TokenCounter) -> int:
        if not self.images:
            return 0
        if tokens.image_tokens is None:
            raise images_not_taken(self.images[0])
        return len(self.images) * tokens.image_tokens

    def own_body(self, output_tokens_max: int) -> dict[str, Any]:
        return {
            "messages": self.messages,
            **self._asked(output_tokens_max),
            "logprobs": self.logprobs,
            **self._guided(self.offered),
        }

    def outside_body(self, output_tokens_max: int) -> dict[str, Any]:
        asked = self.logprobs is not None
        scored = {"logprobs": True, "top_logprobs": self.logprobs} if asked else {}
        return outside_stream(
            {
                "messages": self.said or self.messages,
                **self._asked(output_tokens_max),
                **scored,
                **self._guided(self.tools),
                **(self.labels or {}),
            }
        )

    def _asked(self, output_tokens_max: int) -> dict[str, Any]:
        return {"max_tokens": output_tokens_max, "n": self.choices, **self.sampling}

    def _guided(self, offered: tuple[dict[str, Any], ...]) -> dict[str, Any]:
        """What decides the form of the answer; whatever is neutral stays unsaid."""
        found: dict[str, Any] = {}
        if offered:
            found["tools"] = offered
            if self.tool_choice != "auto":
                found["tool_choice"] = self.tool_choice
            if not self.parallel_tool_calls:
                found["parallel_tool_calls"] = False
        if self.response_format is not None:
            found["response_format"] = self.response_format
        return found


def check_conversation(fields: Mapping[str, Any]) -> None:
    """Every check of a chat body; raises ApiError 400 naming the parameter, in OpenAI's words."""
    check_fields(fields, CHECKS, "model", "messages")
    require_together(fields, "stream_options", "stream")
    if fields.get("top_logprobs"):
        require_together(fields, "top_logprobs", "logprobs")
    require_offered(fields)
    check_biases(fields)


def conversation_of(fields: Mapping[str, Any]) -> Conversation:
    """Of fields that passed `check_conversation`."""
    form = fields.get("response_format")
    said, plain, seen, thought = _spoken(fields["messages"])
    if form is not None and (rule := described(form)) is not None:
        plain = with_rule(plain, rule)
    labels = {n: v for n, v in fields.items() if n in LABELS and v is not None}
    return Conversation(
        messages=plain,
        sampling=sampling(fields),
        choices=fields.get("n") or 1,
        logprobs=(fields.get("top_logprobs") or 0) if fields.get("logprobs") else None,
        tools=tuple(fields.get("tools") or ()),
        tool_choice=fields.get("tool_choice") or "auto",
        parallel_tool_calls=fields.get("parallel_tool_calls") is not False,
        response_format=None if form is None or form["type"] == "text" else form,
        said=said,
        labels=labels or None,
        images=seen,
        reasoning=thought,
    )


def _spoken(
    messages: Sequence[dict[str, Any]],
) -> tuple[
    tuple[dict[str, Any], ...], tuple[dict[str, Any], ...], tuple[str, ...], tuple[str, ...]
]:
    """Messages as they were said, as models that know only text are told of them, where their
    images are, and what earlier answers thought. Mostly the first two are the same."""
    if all(map(is_plain, messages)):
        said = tuple(messages)
        return said, said, (), ()
    said = tuple(map(_said, messages))
    return said, tuple(map(plain_message, said)), images("messages", said), reasoning(said)


def _said(message: dict[str, Any]) -> dict[str, Any]:
    """Without what says nothing: nulls, and what clients add to an answer that they send back."""
    found = {n: value for n, value in message.items() if value is not None and n not in OF_CLIENTS}
    if len(found) == len(message):
        return message
    return found if "content" in found else found | {"content": None}


def _metadata(name: str, value: object) -> None:
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise invalid_type(name, "an object with string values", value)
    if len(value) > METADATA_MAX:
        raise bad_request(f"'{name}' takes at most {METADATA_MAX} pairs.", name, "invalid_value")
    for key, text in value.items():
        if len(key) > METADATA_KEY_MAX:
            message = f"A key of '{name}' is longer than {METADATA_KEY_MAX} characters."
            raise bad_request(message, name, "invalid_value")
        text_up_to(METADATA_VALUE_MAX)(f"{name}.{key}", text)


CHECKS: dict[str, Check] = GENERATED | {
    "messages": conversation,
    "max_completion_tokens": integer(1, 2**31),
    "logprobs": boolean,
    "top_logprobs": integer(0, TOP_LOGPROBS_MAX),
    "safety_identifier": text_up_to(SAFETY_IDENTIFIER_MAX),
    "metadata": _metadata,
    "store": only(False),
    "response_format": response_format,
    "modalities": only(["text"]),
    "tools": tools,
    "tool_choice": tool_choice,
    "parallel_tool_calls": boolean,
    "functions": only([]),
    "function_call": only("none"),
    "audio": only(None),
    "moderation": only(None),
    "prediction": only(None),
    "reasoning_effort": only("none"),
    "verbosity": only("medium"),
    "web_search_options": only(None),
    "prompt_cache_key": text_up_to(PROMPT_CACHE_KEY_MAX),
    "prompt_cache_options": only(None),
    "prompt_cache_retention": only("in_memory"),
}
