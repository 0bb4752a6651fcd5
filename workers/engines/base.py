"""What an engine is to the rest of a worker: token ids in, frames of text or vectors and exact
counts out. Knows no HTTP, no Ray and no model library; guards the law that usage in a frame is
cumulative and that its classes are disjoint."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from workers.engines.forms import Constraint, Guide

LOGPROBS_MAX = 20


class FinishReason(StrEnum):
    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Disjoint token classes: the prompt has `input + cached_input` tokens. `busy_us` is the share
    of the replica's time that computing them took (`sharing.py`); it makes no usage another."""

    input: int
    cached_input: int
    output: int
    busy_us: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One sequence to generate. `tokens_max` None means until the context window is full; a
    temperature of 0 is greedy; `seed` decides every draw together with the position, whatever else
    runs in the batch; blocks of the prefix cache are only shared between requests of the same
    `cache_salt`; `immediate` frames leave token by token, never waiting for company. `logprobs` is
    how many of the likeliest tokens each token of the answer comes with, up to LOGPROBS_MAX; None
    asks for none of it, 0 for the token's own. Sequences of one `call_id` are one call's, which
    waits behind others for its next slot while it has more of them; without one it is its own.
    `logit_bias` is added to the logits of single tokens; the penalties lower those of tokens that
    the answer has already, once or for each time, by OpenAI's formula. A `constraint` is what
    `Engine.constrain` made: the answer ends where its form is complete."""

    request_id: str
    prompt_token_ids: tuple[int, ...]
    seed: int
    tokens_max: int | None = None
    temperature: float = 1.0
    top_p: float = 1.0
    stop: tuple[str, ...] = ()
    cache_salt: str = ""
    ignore_eos: bool = False
    immediate: bool = False
    logprobs: int | None = None
    call_id: str = ""
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    constraint: Constraint | None = None


@dataclass(frozen=True, slots=True)
class ScoredToken:
    """A token as its bytes, which may be a part of a character (`text` has replacement signs
    there), and the natural logarithm of its probability: by the model's own distribution, before
    temperature and top_p, as OpenAI and vLLM report it."""

    token_id: int
    text: str
    raw: bytes
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """One generated token, and the likeliest in its place, likeliest first."""

    chosen: ScoredToken
    top: tuple[ScoredToken, ...] = ()


@dataclass(frozen=True, slots=True)
class Frame:
    """What was generated since the last frame. `position` is the number of output tokens so far and
    equals `usage.output`; tokens without text (special ones, half a character) are in `token_ids`
    all the same. `logprobs` has an entry for each of them if the request asked, else it is None.
    `stopped_by` is the stop string that ended the answer."""

    text: str
    token_ids: tuple[int, ...]
    usage: TokenUsage
    finish_reason: FinishReason | None = None
    logprobs: tuple[TokenLogprobs, ...] | None = None
    stopped_by: str | None = None

    @property
    def position(self) -> int:
        return self.usage.output

    @property
    def last(self) -> bool:
        return self.finish_reason is not None


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """One vector for each input. `dimensions` below the model's own keeps as many leading ones and
    brings them back to length 1."""

    request_id: str
    inputs: tuple[tuple[int, ...], ...]
    dimensions: int | None = None


@dataclass(frozen=True, slots=True)
class Embedding:
    """The vector of one input, of length 1, as little-endian float32."""

    index: int
    vector: bytes


@dataclass(frozen=True, slots=True)
class EmbeddingFrame:
    """What one batch computed of a request, in no order; usage counts the inputs done so far."""

    embeddings: tuple[Embedding, ...]
    usage: TokenUsage
    last: bool = False


@dataclass(frozen=True, slots=True)
class EngineStats:
    running: int = 0
    queued: int = 0
    kv_tokens_used: int = 0
    kv_tokens_total: int = 0
    prefill_steps_total: int = 0
    decode_steps_total: int = 0
    tokens_prefilled_total: int = 0
    tokens_cached_total: int = 0
    tokens_out_total: int = 0
    requests_total: int = 0
    busy_us_total: int = 0


@dataclass(frozen=True)  # without slots, so that the defaults can be read from the class
class EngineSettings:
    """The bounds of an engine. `slots` sequences decode together, `queue_max` more may wait; a step
    prefills at most `prefill_tokens_max` tokens, so running streams never wait longer than that;
    `cache_tokens_max` bounds the prefix cache, which shares whole blocks of `block_tokens`; tokens
    that come faster than every `frame_interval_s` ride in one frame, but for a first and a last.
    vLLM reserves `kv_cache_mb` for keys and values on a CPU, `gpu_memory_share` of a GPU's memory;
    its `dtype` "auto" is the checkpoint's on a GPU and float32, as ours, on a CPU.
    An engine of embeddings computes at most `batch_tokens_max` together, padding included, for up
    to `slots + queue_max` calls whose inputs may be `waiting_tokens_max` together."""

    model_path: Path
    slots: int = 16
    staging_rows: int = 4
    queue_max: int = 512  # four of the largest calls
    context_tokens: int = 2048
    prefill_tokens_max: int = 256
    block_tokens: int = 16
    cache_tokens_max: int = 8192
    frame_interval_s: float = 0.02
    batch_tokens_max: int = 1024
    waiting_tokens_max: int = 524_288
    threads: int = 1
    kv_cache_mb: int = 256
    gpu_memory_share: float = 0.9
    dtype: str = "auto"

    def __post_init__(self) -> None:
        for name in ("slots", "staging_rows", "context_tokens", "block_tokens", "threads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if self.prefill_tokens_max < self.staging_rows:
            raise ValueError("prefill_tokens_max must be at least staging_rows")


class FrameStream(Protocol):
    """The frames of one request. Whoever holds it must `aclose` it: closing an unfinished one
    aborts the sequence within one step, and never waits for it."""

    def __aiter__(self) -> AsyncIterator[Frame]: ...

    async def __anext__(self) -> Frame: ...

    async def aclose(self) -> None: ...


class EmbeddingStream(Protocol):
    """The frames of one request, until every input has its vector. Whoever holds it must `aclose`
    it: closing an unfinished one takes what is left out of the next batch."""

    def __aiter__(self) -> AsyncIterator[EmbeddingFrame]: ...

    async def __anext__(self) -> EmbeddingFrame: ...

    async def aclose(self) -> None: ...


class EngineLife(Protocol):
    """What every engine has, whatever it makes: it batches, and computes on a thread of its own.
    All methods are called on one event loop."""

    @property
    def context_tokens(self) -> int: ...

    async def start(self) -> None:
        """Load the model and begin; raises `CheckpointUnsupported` for a model it cannot run."""
        ...

    def abort(self, request_id: str) -> None: ...

    def stats(self) -> EngineStats: ...

    def health(self) -> str | None:
        """None when well, else the reason why not."""
        ...

    async def stop(self) -> None: ...


class Engine(EngineLife, Protocol):
    """Generates, batching continuously."""

    def generate(self, request: GenerationRequest) -> FrameStream:
        """Admit a request at once, or raise `ContextLengthExceeded`, `PromptInvalid`,
        `UnsupportedParameter`, `EngineOverloaded`, `RequestInFlight` or `EngineFailed`; iterating
        raises `GenerationAborted` or `EngineFailed` when it ends early."""
        ...

    async def constrain(self, guide: Guide) -> Constraint:
        """Compile a guide, beside the loop; raises `GuideInvalid` naming the field whose schema
        cannot be followed."""
        ...


class EmbeddingEngine(EngineLife, Protocol):
    def embed(self, request: EmbeddingRequest) -> EmbeddingStream:
        """As `Engine.generate`; a frame may hold any of the inputs."""
        ...


class Chat(Protocol):
    """Turns messages into the token ids an engine continues."""

    def prompt_token_ids(
        self, messages: Iterable[object], tools: Sequence[dict[str, Any]] = ()
    ) -> tuple[int, ...]:
        """Raises `PromptInvalid` if the template refuses the messages, `UnsupportedParameter` if
        it knows no tools."""
        ...


class Text(Protocol):
    """Turns plain text, which may spell special tokens, into token ids."""

    def token_ids(self, text: str) -> tuple[int, ...]:
        """With the special tokens that the tokenizer puts around a text."""
        ...


class EngineError(Exception):
    """What an engine refuses or fails to do."""


class ContextLengthExceeded(EngineError):
    """`room_tokens` is what a prompt must leave for an answer."""

    def __init__(self, *, prompt_tokens: int, context_tokens: int, room_tokens: int = 1) -> None:
        room = f", of which a prompt must leave {room_tokens} for the answer" if room_tokens else ""
        super().__init__(
            f"This model's maximum context length is {context_tokens} tokens{room}. Your input"
            f" has {prompt_tokens} tokens."
        )
        self.prompt_tokens = prompt_tokens
        self.context_tokens = context_tokens


class PromptInvalid(EngineError):
    """The prompt is empty or the chat template does not take it."""


class UnsupportedParameter(EngineError):
    """This engine, or this model, cannot do what the parameter asks."""

    def __init__(self, message: str, *, param: str) -> None:
        super().__init__(message)
        self.param = param


class GuideInvalid(EngineError):
    """A schema that cannot be followed: it is none, asks what nobody here can check, or is too much
    work."""

    def __init__(self, message: str, *, param: str) -> None:
        super().__init__(message)
        self.param = param


class EngineOverloaded(EngineError):
    """Every slot is taken and the queue is full."""


class RequestInFlight(EngineError):
    """A request of that id is already being generated."""


class GenerationAborted(EngineError):
    """The sequence was aborted by somebody other than its reader."""


class EngineFailed(EngineError):
    """The engine has stopped or broken; the worker should be replaced."""


class CheckpointUnsupported(EngineError):
    """The model folder holds something this engine would compute wrongly."""
