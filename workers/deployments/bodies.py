"""What the bodies of requests may say, and the sequences that one asks for. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Annotated, Any, TypeVar

import msgspec

from workers.deployments.errors import HttpError
from workers.deployments.guides import Choice, ResponseFormat, Tool, guide_of
from workers.engines.base import LOGPROBS_MAX, GenerationRequest
from workers.engines.forms import Constraint, Guide

INPUTS_MAX = 2048

TokensMax = Annotated[int, msgspec.Meta(ge=1)]
Temperature = Annotated[float, msgspec.Meta(ge=0, le=2)]
TopP = Annotated[float, msgspec.Meta(ge=0, le=1)]
Seed = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Stops = Annotated[list[str], msgspec.Meta(max_length=4)]
Samples = Annotated[int, msgspec.Meta(ge=1)]
Logprobs = Annotated[int, msgspec.Meta(ge=0, le=LOGPROBS_MAX)]
Penalty = Annotated[float, msgspec.Meta(ge=-2, le=2)]
Bias = Annotated[float, msgspec.Meta(ge=-100, le=100)]
Prompt = str | list[int]
TokenIds = tuple[int, ...]


class SluiceFields(msgspec.Struct, frozen=True):
    request_id: str
    cache_salt: str = ""
    immediate: bool = False


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """What a call says of every sequence, as far as OpenAI's two bodies agree, and ours beside."""

    sluice: SluiceFields
    n: Samples = 1
    max_tokens: TokensMax | None = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    stop: str | Stops | None = None
    seed: Seed | None = None
    logprobs: Logprobs | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: dict[int, Bias] | None = None

    @property
    def tokens_max(self) -> int | None:
        return self.max_tokens


class ChatBody(Sampling, frozen=True, kw_only=True):
    messages: list[dict[str, Any]]
    max_completion_tokens: TokensMax | None = None
    tools: list[dict[str, Any]] = []
    tool_choice: str | Choice = "auto"
    parallel_tool_calls: bool = True
    response_format: ResponseFormat | None = None

    @property
    def tokens_max(self) -> int | None:
        return self.max_completion_tokens or self.max_tokens

    @property
    def offered(self) -> list[dict[str, Any]]:
        """As the body writes them, which is how a template is told of them."""
        return [] if self.tool_choice == "none" else self.tools

    def guide(self) -> Guide | None:
        """Raises HttpError, 400."""
        if not self.offered and self.response_format is None:
            return None
        try:
            tools = msgspec.convert(self.offered, list[Tool])
        except msgspec.ValidationError as error:
            raise HttpError(400, "invalid_body", str(error), "tools") from error
        return guide_of(
            tools, self.tool_choice, self.response_format, parallel=self.parallel_tool_calls
        )


class CompletionBody(Sampling, frozen=True, kw_only=True):
    prompt: list[Prompt]


class EmbeddingBody(msgspec.Struct, frozen=True):
    input: Annotated[list[Prompt], msgspec.Meta(max_length=INPUTS_MAX)]
    sluice: SluiceFields
    dimensions: Annotated[int, msgspec.Meta(ge=1)] | None = None


class DrainBody(msgspec.Struct, frozen=True):
    draining: bool = True


Body = TypeVar("Body")


def decoded(raw: bytes, kind: type[Body]) -> Body:
    """Raises HttpError, 400."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise HttpError(400, "invalid_body", str(error)) from error


def generation_requests(
    body: Sampling,
    prompts: Sequence[TokenIds],
    *,
    choices_max: int,
    constraint: Constraint | None = None,
) -> list[GenerationRequest]:
    """One for each choice, `n` for each prompt in turn. The first has the call's own id, so that a
    call of one choice is known to the engine by it. Raises HttpError, 400."""
    if len(prompts) * body.n > choices_max:
        raise HttpError(400, "too_many_choices", f"more than {choices_max} choices", "n")
    pairs = ((prompt, sample) for prompt in prompts for sample in range(body.n))
    return [_request(body, index, *pair, constraint) for index, pair in enumerate(pairs)]


def _request(
    body: Sampling, index: int, prompt: TokenIds, sample: int, constraint: Constraint | None
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
        temperature=1.0 if body.temperature is None else body.temperature,
        top_p=1.0 if body.top_p is None else body.top_p,
        stop=(stops,) if isinstance(stops, str) else tuple(stops or ()),
        cache_salt=body.sluice.cache_salt,
        immediate=body.sluice.immediate,
        logprobs=body.logprobs,
        call_id=call_id,
        presence_penalty=body.presence_penalty or 0.0,
        frequency_penalty=body.frequency_penalty or 0.0,
        logit_bias=tuple((body.logit_bias or {}).items()),
        constraint=constraint,
    )


def seed_of(request_id: str) -> int:
    """The draws of a call that names no seed: as various as request ids, and the same on resume."""
    digest = blake2b(request_id.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)
