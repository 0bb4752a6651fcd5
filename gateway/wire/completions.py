"""`/v1/completions` on the wire: a body checked, answers shaped as OpenAI's.

Echo is done here, in the answer: workers never hear of it. Nothing of a body is dropped silently.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from billing.types import Usage
from gateway.errors import bad_request
from gateway.frame import Choice
from gateway.tokens import TokenCounter
from gateway.wire.answer import AnswerHead, Envelope, Notes, envelope_fields, whole_answer
from gateway.wire.checks import (
    CHOICES_MAX,
    GENERATED,
    Check,
    boolean,
    checked,
    integer,
    only,
    require_together,
    sampling,
    unsupported,
)
from gateway.wire.gathered import Gathered
from gateway.wire.legacy_logprobs import LegacyLogprobs
from gateway.wire.prompts import (
    Prompt,
    check_biased,
    check_biases,
    longest_characters,
    prompt_list,
    prompt_tokens,
    prompts,
)
from gateway.wire.request import GeneratingRequest, generating, outside_stream
from routing.types import Task

ID_PREFIX = "cmpl"
NAME = "text_completion"
OUTPUT_TOKENS_DEFAULT = 16
LOGPROBS_MAX = 5
FINISH_REASONS = ("stop", "length", "content_filter")
"""OpenAI's of texts, which call no tools."""

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

    @property
    def choices(self) -> int:
        return len(self.prompts) * self.n

    def prompt_tokens(self, tokens: TokenCounter) -> Sequence[int]:
        check_biased(self.sampling, tokens)
        return prompt_tokens(self.prompts, tokens, self.param)

    def longest_characters(self) -> int:
        return longest_characters(self.prompts)

    def own_body(self, output_tokens_max: int) -> dict[str, Any]:
        return {
            "prompt": self.prompts,
            "max_tokens": output_tokens_max,
            "n": self.n,
            "logprobs": self.logprobs,
            **self.sampling,
        }

    def outside_body(self, output_tokens_max: int) -> dict[str, Any]:
        body = self.own_body(output_tokens_max) | {"user": self.user}
        if len(self.prompts) == 1:
            body["prompt"] = self.prompts[0]
        return outside_stream({k: v for k, v in body.items() if v is not None})


def parse_completion(body: bytes, text_of: TextOf) -> GeneratingRequest:
    """Raises ApiError 400 naming the parameter, in OpenAI's words."""
    fields = checked(body, CHECKS, "model", "prompt")
    require_together(fields, "stream_options", "stream")
    check_biases(fields)
    n = fields.get("n") or 1
    if fields.get("best_of") not in (None, n):
        raise unsupported("best_of")
    wanted = Prompts(
        prompts=prompt_list("prompt", fields["prompt"], fields["model"]),
        n=n,
        sampling=sampling(fields),
        logprobs=fields.get("logprobs"),
        user=fields.get("user"),
    )
    if wanted.choices > CHOICES_MAX:
        message = (
            f"'prompt' times 'n' gives {wanted.choices} answers, at most {CHOICES_MAX} may be."
        )
        raise bad_request(message, "n", "invalid_value")
    form = CompletionForm(_echoes(fields, wanted, text_of), wanted.logprobs is not None)
    return generating(fields, wanted, form, fields.get("max_tokens") or OUTPUT_TOKENS_DEFAULT)


def _echoes(fields: dict[str, Any], wanted: Prompts, text_of: TextOf) -> tuple[str, ...]:
    """What stands before each choice."""
    if not fields.get("echo"):
        return ("",) * wanted.choices
    if wanted.logprobs is not None:
        message = "Unsupported parameter: 'echo' is not supported together with 'logprobs'."
        raise bad_request(message, "echo", "unsupported_parameter")
    model = fields["model"]
    texts = [p if isinstance(p, str) else text_of(model, p) for p in wanted.prompts]
    return tuple(text for text in texts for _ in range(wanted.n))


@dataclass(frozen=True, slots=True)
class CompletionForm:
    """`echoes` stand before the choices; `scored`: log probabilities were asked for."""

    echoes: tuple[str, ...]
    scored: bool

    def whole(
        self, head: AnswerHead, choices: Sequence[Gathered], usage: Usage, cost: str
    ) -> bytes:
        shapes = [self._whole_choice(choice) for choice in choices]
        return whole_answer(envelope_fields(head, ID_PREFIX, NAME), shapes, usage, cost)

    def _whole_choice(self, choice: Gathered) -> dict[str, Any]:
        text = self.echoes[choice.index] + choice.text
        scores = LegacyLogprobs().shape(choice.logprobs) if self.scored else None
        return _shape(choice.index, text, choice.finish_reason, scores)

    def chunks(self, head: AnswerHead, includes_usage: bool) -> "CompletionChunks":
        fields = envelope_fields(head, ID_PREFIX, NAME)
        return CompletionChunks(self, Envelope(fields, includes_usage))


class CompletionChunks:
    """One stream: the echo of each choice if there is one, then text."""

    def __init__(self, form: CompletionForm, envelope: Envelope) -> None:
        self._echoes = form.echoes
        self._scores = [LegacyLogprobs() for _ in form.echoes] if form.scored else None
        self._envelope = envelope
        self.end = envelope.end
        self.failed = envelope.failed

    def opening(self, notes: Notes | None) -> Iterator[bytes]:
        for index, echo in enumerate(self._echoes):
            if echo or (notes and not index):
                yield self._envelope.chunk(_shape(index, echo), None if index else notes)

    def piece(self, choice: Choice, notes: Notes | None) -> Iterator[bytes]:
        scores = self._scores[choice.index].shape(choice.logprobs) if self._scores else None
        if choice.content or scores or choice.finish_reason is not None:
            shape = _shape(choice.index, choice.content, choice.finish_reason, scores)
            yield self._envelope.chunk(shape, notes)


def _shape(
    index: int, text: str, finish_reason: str | None = None, scores: dict[str, Any] | None = None
) -> dict[str, Any]:
    if finish_reason is not None and finish_reason not in FINISH_REASONS:
        finish_reason = "stop"
    return {"text": text, "index": index, "logprobs": scores, "finish_reason": finish_reason}


CHECKS: dict[str, Check] = GENERATED | {
    "prompt": prompts(CHOICES_MAX),
    "best_of": integer(0, 20),
    "echo": boolean,
    "logprobs": integer(0, LOGPROBS_MAX),
    "suffix": only(""),
}
