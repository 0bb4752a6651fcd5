"""A conversation that is to be answered, from OpenAI's chat fields: the canonical form of every
route that has messages. Nothing of a body is dropped silently."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, ClassVar

import msgspec

from gateway.call.request import GeneratingRequest, outside_stream
from gateway.catalog.tokenizers import CheckpointTokens, TokenCounter, UnrenderableConversation
from gateway.errors import bad_request
from gateway.wire.answer import StreamableForm
from gateway.wire.bodies.chat_body import ChatBody
from gateway.wire.bodies.checks import unsupported
from gateway.wire.bodies.messages import (
    OF_CLIENTS,
    characters,
    images,
    images_not_taken,
    is_plain,
    only_thinks,
    plain_message,
    reasoning,
    with_rule,
)
from gateway.wire.bodies.prompts import check_tokens_known
from gateway.wire.bodies.response_format import described
from gateway.wire.bodies.steering import rendering, steered, structured_outputs
from gateway.wire.bodies.text_body import generating
from gateway.wire.bodies.tools import INDEX
from routing.types import Task
from workers.prompts.templates import ToolsUnsupported
from workers.sampling import RENDERING, Rendering

LABELS = ("user", "safety_identifier", "prompt_cache_key", "metadata")
"""What says who asks and why; a server outside may want to know, a model does not."""
HINTS = ("reasoning_effort", "verbosity", "thinking")
"""What steers a server outside; the models here have nothing that it would steer."""
CACHING = ("prompt_cache_options", "prompt_cache_retention")
FOR_OUTSIDE = (*LABELS, *HINTS, *CACHING)
_for_outside = attrgetter(*FOR_OUTSIDE)
NEUTRAL_HINTS = (("verbosity", "medium"), ("prompt_cache_retention", "in_memory"))


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
    full_messages: tuple[dict[str, Any], ...] = ()
    labels: Mapping[str, Any] | None = None
    images: tuple[str, ...] = ()
    reasoning: tuple[str, ...] = ()
    rendering: Mapping[str, Any] | None = None
    truncate_prompt_tokens: int | None = None
    prompt_logprobs: int | None = None
    structured_outputs: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] | None = None

    @property
    def offered(self) -> tuple[dict[str, Any], ...]:
        """The tools that a model is told of: none where it may call none."""
        return () if self.tool_choice == "none" else self.tools

    def prompt_tokens(self, tokens: TokenCounter) -> Sequence[int]:
        check_tokens_known(self.sampling, tokens)
        try:
            size = tokens.count(self.messages, self.offered, self._rendered())
        except ToolsUnsupported as untold:
            raise unsupported(untold.param) from untold
        except UnrenderableConversation as refused:
            raise bad_request(str(refused), self.param) from refused
        size += self._seen(tokens)
        if self.reasoning and not isinstance(tokens, CheckpointTokens):
            size += sum(map(tokens.count_text, self.reasoning))
        return (size,)

    def _rendered(self) -> Rendering:
        return RENDERING if self.rendering is None else Rendering(**self.rendering)

    def question(self) -> str:
        questions = (m["content"] for m in reversed(self.messages) if m["role"] == "user")
        return str(next(questions, ""))

    def longest_characters(self) -> int:
        return characters(self.messages)

    def _seen(self, tokens: TokenCounter) -> int:
        if not self.images:
            return 0
        if tokens.image_tokens is None:
            raise images_not_taken(self.images[0])
        return len(self.images) * tokens.image_tokens

    def prefix(self) -> bytes:
        if self.truncate_prompt_tokens is not None or self.prompt_logprobs is not None:
            return b""
        messages = msgspec.json.encode(self.messages)
        return msgspec.json.encode(self.offered) + messages if self.offered else messages

    def own_body(self, output_tokens_max: int) -> dict[str, Any]:
        body = {
            "messages": self.messages,
            **self._fields(output_tokens_max),
            "logprobs": self.logprobs,
            **self._guided(self.offered),
        }
        if self.rendering is not None:
            body["rendering"] = self.rendering
        if self.structured_outputs is not None:
            body["structured_outputs"] = structured_outputs(self.structured_outputs)
        return body

    def outside_body(self, output_tokens_max: int) -> dict[str, Any]:
        wants_scores = self.logprobs is not None
        scored = {"logprobs": True, "top_logprobs": self.logprobs} if wants_scores else {}
        return outside_stream(
            {
                "messages": self.full_messages or self.messages,
                **self._fields(output_tokens_max),
                **scored,
                **self._guided(self.tools),
                **(self.labels or {}),
                **(self.rendering or {}),
                **(self.structured_outputs or {}),
                **(self.extra or {}),
            }
        )

    def _fields(self, output_tokens_max: int) -> dict[str, Any]:
        fields = {"max_tokens": output_tokens_max, "n": self.choices, **self.sampling}
        if self.truncate_prompt_tokens is not None:
            fields["truncate_prompt_tokens"] = self.truncate_prompt_tokens
        if self.prompt_logprobs is not None:
            fields["prompt_logprobs"] = self.prompt_logprobs
        return fields

    def _guided(self, tools: tuple[dict[str, Any], ...]) -> dict[str, Any]:
        """What decides the form of the answer; whatever is neutral stays unsaid."""
        fields: dict[str, Any] = {}
        if tools:
            fields["tools"] = tools
            if self.tool_choice != "auto":
                fields["tool_choice"] = self.tool_choice
            if not self.parallel_tool_calls:
                fields["parallel_tool_calls"] = False
        if self.response_format is not None:
            fields["response_format"] = self.response_format
        return fields


def conversation_of(fields: ChatBody, extra: Mapping[str, Any] | None = None) -> Conversation:
    form = fields.response_format
    messages, plain, image_paths, thoughts = _spoken(fields.messages)
    if form is not None and (rule := described(form)) is not None:
        plain = with_rule(plain, rule)
    return Conversation(
        messages=plain,
        choices=fields.n or 1,
        logprobs=(fields.top_logprobs or 0) if fields.logprobs else None,
        tools=tuple(fields.tools or ()),
        tool_choice=fields.tool_choice or "auto",
        parallel_tool_calls=fields.parallel_tool_calls is not False,
        response_format=None if form is None or form["type"] == "text" else form,
        full_messages=messages,
        labels=_labels(_for_outside(fields)),
        images=image_paths,
        reasoning=thoughts,
        rendering=rendering(fields) or None,
        extra=extra,
        **steered(fields),
    )


def _labels(values: tuple[Any, ...]) -> dict[str, Any] | None:
    if not any(values):
        return None
    labels = ((name, v) for name, v in zip(FOR_OUTSIDE, values, strict=True) if v)
    return {name: v for name, v in labels if (name, v) not in NEUTRAL_HINTS} or None


def _spoken(
    messages: Sequence[dict[str, Any]],
) -> tuple[
    tuple[dict[str, Any], ...], tuple[dict[str, Any], ...], tuple[str, ...], tuple[str, ...]
]:
    """Messages as they were said, as models that know only text are told of them, where their
    images are, and what earlier answers thought. Mostly the first two are the same."""
    if all(map(is_plain, messages)):
        full = tuple(messages)
        return full, full, (), ()
    full = tuple(map(_without_nothing, messages))
    answerable = full[:-1] if only_thinks(full[-1]) else full
    return full, tuple(map(plain_message, answerable)), images("messages", full), reasoning(full)


def _without_nothing(message: dict[str, Any]) -> dict[str, Any]:
    """Without what says nothing: nulls, and what clients add to an answer that they send back."""
    fields = {n: value for n, value in message.items() if value is not None and n not in OF_CLIENTS}
    if calls := fields.get("tool_calls"):
        fields["tool_calls"] = [{n: v for n, v in call.items() if n != INDEX} for call in calls]
    elif len(fields) == len(message):
        return message
    return fields if "content" in fields else fields | {"content": None}


def generating_chat(
    fields: ChatBody,
    conversation: Conversation,
    form: StreamableForm,
    output_tokens_max: int | None,
    end_user_param: str = "safety_identifier",
) -> GeneratingRequest:
    return generating(
        fields,
        conversation,
        form,
        output_tokens_max,
        end_user=fields.safety_identifier or fields.user,
        end_user_param=end_user_param,
        prompt_cache_key=fields.prompt_cache_key,
        has_tools=bool(fields.tools),
        metadata=fields.metadata,
    )
