"""`/v1/completions` on the wire: a body checked, answers shaped as OpenAI's.

Echo is done here, in the answer: workers never hear of it, but for its log
probabilities. Nothing of a body is dropped silently.
"""

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from billing.types import Usage
from gateway.call.frame import Choice, PromptLogprobs
from gateway.call.request import GeneratingRequest, outside_stream
from gateway.catalog.tokenizers import TokenCounter
from gateway.errors import bad_request
from gateway.wire.answer import AnswerHead, Envelope, Notes, envelope_fields, whole_answer
from gateway.wire.bodies.checks import CHOICES_MAX, Takes, takes_no_more, unsupported
from gateway.wire.bodies.prompts import (
    Prompt,
    check_own_tokens,
    check_tokens_known,
    longest_characters,
    prompt_list,
    prompt_tokens,
    prompts,
    texts,
)
from gateway.wire.bodies.rules import Reader, neutral, own
from gateway.wire.bodies.steering import (
    NOT_DONE,
    STEERED,
    require_sensible,
    steered,
    structured_outputs,
)
from gateway.wire.bodies.text_body import GeneratedBody, generating, require_together
from gateway.wire.legacy_logprobs import LegacyLogprobs
from gateway.wire.prompt_logprobs import echoed, ranked
from gateway.wire.whole_choice import WholeChoice
from routing.types import Task

ID_PREFIX = "cmpl"
NAME = "text_completion"
OUTPUT_TOKENS_DEFAULT = 16
FINISH_REASONS = ("stop", "length", "content_filter")
"""OpenAI's of texts, which call no tools."""


class CompletionBody(GeneratedBody, frozen=True, kw_only=True):
    prompt: Annotated[str | list[Any], own(prompts(CHOICES_MAX), texts(CHOICES_MAX))]
    best_of: Annotated[int, Meta(ge=0, le=20)] | None = None
    echo: bool | None = None
    logprobs: Annotated[int, Meta(ge=0, le=5)] | None = None
    suffix: Annotated[str | None, neutral("")] = None
    add_special_tokens: Annotated[bool | None, neutral(True)] = None


COMPLETION = Reader(CompletionBody, STEERED | NOT_DONE)
TextOf = Callable[[str, Sequence[int]], str]
"""The text of a model's token ids; raises ApiError where the model or its tokenizer is not here."""


@dataclass(frozen=True, slots=True)
class Prompts:
    """Texts to go on with, each `n` times. Choice `i` belongs to prompt `i // n`. Servers outside
    may want to know the `user`, a model does not."""

    task: ClassVar[Task] = Task.GENERATE
    param: ClassVar[str] = "prompt"
    path: ClassVar[str] = "/completions"
    prompts: tuple[Prompt, ...]
    n: int
    sampling: dict[str, Any]
    logprobs: int | None
    user: str | None = None
    truncate_prompt_tokens: int | None = None
    prompt_logprobs: int | None = None
    structured_outputs: dict[str, Any] | None = None
    echo_scored: bool = False
    """The prompt is told again with its log probabilities: servers outside do that themselves."""
    extra: Mapping[str, Any] | None = None

    @property
    def choices(self) -> int:
        return len(self.prompts) * self.n

    def prompt_tokens(self, tokens: TokenCounter) -> Sequence[int]:
        check_tokens_known(self.sampling, tokens)
        return prompt_tokens(self.prompts, tokens, self.param)

    def question(self) -> str:
        prompt = self.prompts[0]
        return prompt if isinstance(prompt, str) else ""

    def longest_characters(self) -> int:
        return longest_characters(self.prompts)

    def prefix(self) -> bytes:
        """Of the one prompt: a call of several is spread over no replicas, and shares little."""
        if len(self.prompts) > 1 or self.truncate_prompt_tokens is not None:
            return b""
        if self.echo_scored or self.prompt_logprobs is not None:
            return b""
        prompt = self.prompts[0]
        return prompt.encode() if isinstance(prompt, str) else array("I", prompt).tobytes()

    def own_body(self, output_tokens_max: int) -> dict[str, Any]:
        body = self._fields(output_tokens_max)
        if self.structured_outputs is not None:
            body["structured_outputs"] = structured_outputs(self.structured_outputs)
        if self.echo_scored:
            body["prompt_logprobs"] = max(self.logprobs or 0, self.prompt_logprobs or 0)
        return body

    def _fields(self, output_tokens_max: int) -> dict[str, Any]:
        fields = {
            "prompt": self.prompts,
            "max_tokens": output_tokens_max,
            "n": self.n,
            "logprobs": self.logprobs,
            **self.sampling,
        }
        if self.truncate_prompt_tokens is not None:
            fields["truncate_prompt_tokens"] = self.truncate_prompt_tokens
        if self.prompt_logprobs is not None:
            fields["prompt_logprobs"] = self.prompt_logprobs
        return fields

    def outside_body(self, output_tokens_max: int) -> dict[str, Any]:
        body = self._fields(output_tokens_max) | {"user": self.user}
        body |= (self.structured_outputs or {}) | dict(self.extra or {})
        if self.echo_scored:
            body["echo"] = True
        if len(self.prompts) == 1:
            body["prompt"] = self.prompts[0]
        return outside_stream({k: v for k, v in body.items() if v is not None})


def parse_completion(
    body: bytes, text_of: TextOf, takes: Takes = takes_no_more
) -> GeneratingRequest:
    """Raises ApiError 400 naming the parameter, in OpenAI's words."""
    fields, extra = COMPLETION.read(body, takes)
    require_together(fields, "stream_options", "stream")
    check_own_tokens(fields)
    output_tokens_max = fields.max_tokens or OUTPUT_TOKENS_DEFAULT
    require_sensible(fields, output_tokens_max)
    n = fields.n or 1
    if fields.best_of not in (None, n):
        raise unsupported("best_of")
    payload = Prompts(
        prompts=prompt_list("prompt", fields.prompt, fields.model),
        n=n,
        logprobs=fields.logprobs,
        user=fields.user or None,
        echo_scored=bool(fields.echo) and fields.logprobs is not None,
        extra=extra,
        **steered(fields),
    )
    if payload.choices > CHOICES_MAX:
        message = (
            f"'prompt' times 'n' gives {payload.choices} answers, at most {CHOICES_MAX} may be."
        )
        raise bad_request(message, "n", "invalid_value")
    form = CompletionForm(
        _echoes(fields, payload, text_of),
        payload.logprobs is not None,
        echo_scored=payload.echo_scored,
        scores_prompt=payload.prompt_logprobs is not None,
        n=payload.n,
    )
    return generating(
        fields,
        payload,
        form,
        output_tokens_max,
        end_user=fields.user,
        end_user_param="user",
    )


def _echoes(fields: CompletionBody, payload: Prompts, text_of: TextOf) -> tuple[str, ...]:
    """What stands before each choice."""
    if not fields.echo:
        return ("",) * payload.choices
    if payload.truncate_prompt_tokens is not None:
        message = "'echo' says the whole prompt, of which 'truncate_prompt_tokens' leaves less."
        raise bad_request(message, "echo", "invalid_parameter_combination")
    texts = [p if isinstance(p, str) else text_of(fields.model, p) for p in payload.prompts]
    return tuple(text for text in texts for _ in range(payload.n))


@dataclass(frozen=True, slots=True)
class CompletionForm:
    """`echoes` stand before the choices; `scored`: log probabilities were asked for, and where
    `echo_scored` those of the echo, of which a server outside says both itself. `scores_prompt`:
    those of the prompts were asked for, of `n` choices each."""

    echoes: tuple[str, ...]
    scored: bool
    echo_scored: bool = False
    scores_prompt: bool = False
    n: int = 1

    def whole(
        self, head: AnswerHead, choices: Sequence[WholeChoice], usage: Usage, cost: str
    ) -> bytes:
        prompts = [choices[n - n % self.n].prompt_logprobs for n in range(len(choices))]
        shapes = [self._whole_choice(*each) for each in zip(choices, prompts, strict=True)]
        return whole_answer(envelope_fields(head, ID_PREFIX, NAME), shapes, usage, cost)

    def _whole_choice(self, choice: WholeChoice, prompt: PromptLogprobs | None) -> dict[str, Any]:
        text, logprobs = choice.text, choice.logprobs
        if not self.echo_scored or prompt is not None:
            text = self.echoes[choice.index] + text
        if self.echo_scored:
            logprobs = echoed(prompt, logprobs)
        scores = LegacyLogprobs(prompt if self.echo_scored else None).shape(logprobs)
        shape = _shape(choice.index, text, choice.finish_reason, scores if self.scored else None)
        return shape | {"prompt_logprobs": ranked(prompt)} if self.scores_prompt else shape

    def chunks(self, head: AnswerHead, includes_usage: bool) -> "CompletionChunks":
        fields = envelope_fields(head, ID_PREFIX, NAME)
        return CompletionChunks(self, Envelope(fields, includes_usage))


class CompletionChunks:
    """One stream: the echo of each choice if there is one, then text."""

    def __init__(self, form: CompletionForm, envelope: Envelope) -> None:
        self._echoes = form.echoes
        self._form = form
        self._prompts: dict[int, PromptLogprobs] = {}
        self._unechoed = set(range(len(form.echoes))) if form.echo_scored else set()
        self._scores = [LegacyLogprobs() for _ in form.echoes] if form.scored else None
        self._envelope = envelope
        self.end = envelope.end
        self.count = envelope.count
        self.failed = envelope.failed

    def opening(self, notes: Notes | None) -> Iterator[bytes]:
        for index, echo in enumerate(self._echoes):
            echo = "" if self._unechoed else echo
            if echo or (notes and not index):
                yield self._envelope.chunk(_shape(index, echo), None if index else notes)

    def piece(self, choice: Choice, notes: Notes | None) -> Iterator[bytes]:
        if choice.index in self._unechoed:
            yield from self._echoed(choice, notes)
            return
        scores = self._scores[choice.index].shape(choice.logprobs) if self._scores else None
        if choice.content or scores or choice.finish_reason is not None:
            shape = _shape(choice.index, choice.content, choice.finish_reason, scores)
            yield self._envelope.chunk(shape, notes)

    def _echoed(self, choice: Choice, notes: Notes | None) -> Iterator[bytes]:
        """The first piece of a choice, with the prompt before it, which the first of the choices to
        each prompt has scored; the others wait for it."""
        index, first = choice.index, choice.index - choice.index % self._form.n
        if choice.prompt_logprobs is not None:
            self._prompts[index] = choice.prompt_logprobs
        assert self._scores is not None, "an echo is scored only where scores were asked for"
        self._unechoed.discard(index)
        prompt = self._prompts.get(first)
        text = choice.content if prompt is None else self._echoes[index] + choice.content
        self._scores[index] = LegacyLogprobs(prompt)
        scores = self._scores[index].shape(echoed(prompt, choice.logprobs))
        yield self._envelope.chunk(_shape(index, text, choice.finish_reason, scores), notes)


def _shape(
    index: int, text: str, finish_reason: str | None = None, scores: dict[str, Any] | None = None
) -> dict[str, Any]:
    if finish_reason is not None and finish_reason not in FINISH_REASONS:
        finish_reason = "stop"
    return {"text": text, "index": index, "logprobs": scores, "finish_reason": finish_reason}
