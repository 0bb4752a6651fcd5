"""The bodies of requests, and the sequences that one asks for. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Annotated, Any, TypeVar

import msgspec

from workers.deployments.errors import HttpError
from workers.deployments.guides import (
    Choice,
    ResponseFormat,
    StructuredOutputs,
    Tool,
    guide_of,
    structured,
)
from workers.engines.base import Bound, GenerationRequest
from workers.engines.forms import Constraint, Guide
from workers.sampling import LOGPROBS_MAX, RENDERING, Prompting, Rendering, Sampling, names

INPUTS_MAX = 2048

TokensMax = Annotated[int, msgspec.Meta(ge=1)]
Seed = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Stops = Annotated[list[str], msgspec.Meta(max_length=4)]
Samples = Annotated[int, msgspec.Meta(ge=1)]
Logprobs = Annotated[int, msgspec.Meta(ge=0, le=LOGPROBS_MAX)]
Prompt = str | list[int]
SAMPLED = names(Sampling)
TokenIds = tuple[int, ...]


class ResumedChoice(msgspec.Struct, frozen=True):
    """One choice of a call that goes on: the token ids of each of its frames that arrived."""

    frames: tuple[TokenIds, ...] = ()
    finished: bool = False

    @property
    def output(self) -> int:
        return sum(len(token_ids) for token_ids in self.frames)


NOT_RESUMED = ResumedChoice()


class Resume(msgspec.Struct, frozen=True):
    """How far a call came at a replica that was lost. `input` and `cached_input` are what that one
    reported of the prompts that it had begun to answer."""

    choices: tuple[ResumedChoice, ...]
    input: Annotated[int, msgspec.Meta(ge=0)]
    cached_input: Annotated[int, msgspec.Meta(ge=0)]


class SluiceFields(msgspec.Struct, frozen=True):
    request_id: str
    cache_salt: str = ""
    immediate: bool = False
    tier: str = "default"
    resume: Resume | None = None


class GeneratingBody(Prompting, frozen=True, kw_only=True):
    """The fields for every sequence that OpenAI's two bodies share, and our own beside them."""

    sluice: SluiceFields
    n: Samples = 1
    max_tokens: TokensMax | None = None
    stop: str | Stops | None = None
    seed: Seed | None = None
    logprobs: Logprobs | None = None
    structured_outputs: StructuredOutputs | None = None

    @property
    def tokens_max(self) -> int | None:
        return self.max_tokens

    def bound(self, context_tokens: int) -> Bound | None:
        """How much of a long prompt is left. Cutting it makes room for the answer."""
        most = self.truncate_prompt_tokens
        if most is None:
            return None
        room = context_tokens - (self.tokens_max or 1)
        return Bound(max(1, room if most < 0 else most), keeps_last=True)


class ChatBody(GeneratingBody, frozen=True, kw_only=True):
    messages: list[dict[str, Any]]
    max_completion_tokens: TokensMax | None = None
    tools: list[dict[str, Any]] = []  # noqa: RUF012 msgspec makes it anew
    rendering: Rendering = RENDERING
    tool_choice: str | Choice = "auto"
    parallel_tool_calls: bool = True
    response_format: ResponseFormat | None = None

    @property
    def tokens_max(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens

    @property
    def offered(self) -> list[dict[str, Any]]:
        """The tools as the body writes them, because a template gets them like this."""
        return [] if self.tool_choice == "none" else self.tools

    def guide(self) -> Guide | None:
        """The form of the answer. Raises HttpError, 400."""
        if not self.offered and self.response_format is None:
            return structured(self.structured_outputs, self.tokens_max)
        if self.structured_outputs is not None:
            message = "an answer has one form: leave out 'response_format' and 'tools'"
            raise HttpError(400, "invalid_value", message, "structured_outputs")
        try:
            tools = msgspec.convert(self.offered, list[Tool])
        except msgspec.ValidationError as error:
            raise HttpError(400, "invalid_body", str(error), "tools") from error
        return guide_of(
            tools,
            self.tool_choice,
            self.response_format,
            parallel=self.parallel_tool_calls,
            tokens_max=self.tokens_max,
        )


class CompletionBody(GeneratingBody, frozen=True, kw_only=True):
    prompt: list[Prompt]

    def guide(self) -> Guide | None:
        """The form of the answer. Raises HttpError, 400."""
        return structured(self.structured_outputs, self.tokens_max)


class EmbeddingBody(msgspec.Struct, frozen=True):
    input: Annotated[list[Prompt], msgspec.Meta(max_length=INPUTS_MAX)]
    sluice: SluiceFields
    dimensions: Annotated[int, msgspec.Meta(ge=1)] | None = None
    truncate_prompt_tokens: int | None = None

    def bound(self, context_tokens: int) -> Bound | None:
        most = self.truncate_prompt_tokens
        if most is None:
            return None
        return Bound(context_tokens if most < 0 else max(1, most), keeps_last=False)


class DrainBody(msgspec.Struct, frozen=True):
    """`asleep`: a worker that has nothing to do lets go of its model. False wakes it."""

    draining: bool = True
    asleep: bool = False


Body = TypeVar("Body")


def decoded(raw: bytes, kind: type[Body]) -> Body:
    """A body as its struct. Raises HttpError, 400."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HttpError(400, "invalid_body", str(error)) from error


def generation_requests(
    body: GeneratingBody,
    prompts: Sequence[TokenIds],
    *,
    choices_max: int,
    constraint: Constraint | None = None,
) -> dict[int, GenerationRequest]:
    """One request for each choice, by its index: `n` for each prompt in turn. A call that goes on
    has none for a choice that is finished. The first has the call's own id, so the engine knows a
    call of one choice by that. Raises HttpError, 400."""
    choices = len(prompts) * body.n
    if choices > choices_max:
        raise HttpError(400, "too_many_choices", f"more than {choices_max} choices", "n")
    resume = body.sluice.resume
    if resume is not None and len(resume.choices) != choices:
        raise HttpError(400, "invalid_value", f"there are {choices} choices", "sluice.resume")
    resumed = resume.choices if resume else [NOT_RESUMED] * choices
    pairs = ((prompt, sample) for prompt in prompts for sample in range(body.n))
    return {
        index: _request(body, index, *pair, constraint, choice.frames)
        for index, (pair, choice) in enumerate(zip(pairs, resumed, strict=True))
        if not choice.finished
    }


def _request(
    body: GeneratingBody,
    index: int,
    prompt: TokenIds,
    sample: int,
    constraint: Constraint | None,
    answer_prefix: tuple[TokenIds, ...],
) -> GenerationRequest:
    call_id = body.sluice.request_id
    # Stop strings are for what is said, and calls alone say nothing.
    stops = None if constraint is not None and constraint.guide.must_call else body.stop
    seed = seed_of(call_id) if body.seed is None else body.seed
    return GenerationRequest(
        request_id=f"{call_id}#{index}" if index else call_id,
        prompt_token_ids=prompt,
        seed=seed + sample,
        tokens_max=body.tokens_max,
        stop=(stops,) if isinstance(stops, str) else tuple(stops or ()),
        cache_salt=body.sluice.cache_salt,
        immediate=body.sluice.immediate,
        logprobs=body.logprobs,
        # One answer of several to a prompt says what the prompt's tokens were worth.
        prompt_logprobs=None if sample else body.prompt_logprobs,
        call_id=call_id,
        constraint=constraint,
        answer_prefix=answer_prefix,
        **{name: getattr(body, name) for name in SAMPLED},
    )


def seed_of(request_id: str) -> int:
    """The seed of a call that names none. It differs from call to call, as request ids do, and is
    the same on resume."""
    digest = blake2b(request_id.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)
