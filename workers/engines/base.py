"""An engine as the rest of a worker sees it: token ids in, frames of text or vectors and exact
counts out. Knows no HTTP, no Ray and no model library. Guards the law that usage in a frame is
cumulative and that its classes are disjoint."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from routing.economics.roofline import Roofline
from routing.gauges import GAUGES, Gauges
from workers.engines.forms import Constraint, Guide
from workers.sampling import LOGPROBS_MAX as LOGPROBS_MAX
from workers.sampling import RENDERING, Rendering, Sampling


class FinishReason(StrEnum):
    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Disjoint token classes: the prompt has `input + cached_input` tokens. `busy_us` is the share
    of the replica's time that computing them took (`sharing.py`). It changes no count of tokens."""

    input: int
    cached_input: int
    output: int
    busy_us: int = field(default=0, compare=False)


class GenerationRequest(Sampling, frozen=True):
    """One sequence to generate. `tokens_max` None means until the context window is full. A
    temperature of 0 is greedy. `seed` decides every draw together with the position, whatever else
    runs in the batch. Requests share blocks of the prefix cache only if they have the same
    `cache_salt`. `immediate` frames leave token by token and never wait for company.

    `logprobs` is how many of the likeliest tokens come with each token of the answer, up to
    LOGPROBS_MAX. 0 is the token's own log probability alone, None is none. `prompt_logprobs` is the
    same for the prompt. All of the prompt is computed then, cached or not.

    Sequences of one `call_id` belong to one call. While a call has more sequences in slots than
    others, it waits behind them for its next slot. A sequence without a `call_id` is a call of its
    own. A `constraint` is what `Engine.constrain` made: the answer ends where its form is complete.

    An `answer_prefix` is what another replica generated of this answer before it was lost: the
    token ids of each frame that arrived. The answer goes on behind it as if it had never been cut.
    No frame says any of it again, and `tokens_max`, positions and `usage.output` count it.
    """

    request_id: str
    prompt_token_ids: tuple[int, ...]
    seed: int
    tokens_max: int | None = None
    stop: tuple[str, ...] = ()
    cache_salt: str = ""
    immediate: bool = False
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    call_id: str = ""
    constraint: Constraint | None = None
    answer_prefix: tuple[tuple[int, ...], ...] = ()

    @property
    def endless(self) -> bool:
        """Whether the model's own end is ignored. The end of a form always counts."""
        return self.ignore_eos and self.constraint is None


@dataclass(frozen=True, slots=True)
class ScoredToken:
    """A token as its bytes and the natural logarithm of its probability. The bytes may be a part of
    a character (`text` has replacement signs there). The probability is by the model's own
    distribution, before temperature and top_p, as OpenAI and vLLM report it."""

    token_id: int
    text: str
    raw: bytes
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """One token, and the likeliest tokens in its place, likeliest first. A token of the prompt also
    has its `rank` among all tokens, from 1."""

    chosen: ScoredToken
    top: tuple[ScoredToken, ...] = ()
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class Frame:
    """The part of an answer since the last frame. `position` is the number of output tokens so far
    and equals `usage.output`. Tokens without text (special ones, half a character) are in
    `token_ids` all the same. `logprobs` has an entry for each token if the request asked, else it
    is None. `stopped_by` is the stop string that ended the answer, or the id of the stop token that
    did. `prompt_logprobs` come with the first frame, if the request asked. Nothing comes before the
    first token of a prompt, so its entry has no meaning. `prefix_texts` are the texts of the frames
    of an `answer_prefix`. They come with the first frame behind it, for those who read calls of
    tools in the text."""

    text: str
    token_ids: tuple[int, ...]
    usage: TokenUsage
    finish_reason: FinishReason | None = None
    logprobs: tuple[TokenLogprobs, ...] | None = None
    stopped_by: str | int | None = None
    prompt_logprobs: tuple[TokenLogprobs, ...] | None = None
    prefix_texts: tuple[str, ...] = ()

    @property
    def position(self) -> int:
        return self.usage.output

    @property
    def last(self) -> bool:
        return self.finish_reason is not None


@dataclass(frozen=True, slots=True)
class EmbeddingRequest:
    """One vector for each input. `dimensions` below the model's own keeps as many leading ones, and
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
    """The vectors that one batch computed of a request, in no order. Usage counts the inputs done
    so far."""

    embeddings: tuple[Embedding, ...]
    usage: TokenUsage
    last: bool = False


@dataclass(frozen=True)
class EngineStats(Gauges):
    """What an engine says of itself: its gauges, and totals since it started."""

    running: int = 0
    queued: int = 0
    prefill_steps_total: int = 0
    decode_steps_total: int = 0
    tokens_prefilled_total: int = 0
    tokens_cached_total: int = 0
    tokens_out_total: int = 0
    requests_total: int = 0
    busy_us_total: int = 0


NOW = frozenset({"running", "queued", *GAUGES})
"""What is of an instant among an engine's stats. All else counts on for ever."""


def totals_of(stats: EngineStats) -> dict[str, int]:
    return {each.name: getattr(stats, each.name) for each in fields(stats) if each.name not in NOW}


@dataclass(frozen=True)  # without slots, so that the defaults can be read from the class
class EngineSettings:
    """The bounds of an engine. `slots` sequences decode together, `queue_max` more may wait; a step
    prefills at most `prefill_tokens_max` tokens, so running streams never wait longer than that;
    `cache_tokens_max` bounds the prefix cache, which shares whole blocks of `block_tokens`; tokens
    that come faster than every `frame_interval_s` ride in one frame, but for a first and a last.
    vLLM reserves `kv_cache_mb` for keys and values on a CPU, `gpu_memory_share` of a GPU's memory;
    its `dtype` "auto" is the checkpoint's on a GPU and float32, as ours, on a CPU. It sleeps at
    `sleep_level`.
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
    sleep_level: int = 1
    roofline: Roofline | None = None
    """What a simulated replica takes its time from; no other engine reads it."""

    def __post_init__(self) -> None:
        for name in ("slots", "staging_rows", "context_tokens", "block_tokens", "threads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if self.prefill_tokens_max < self.staging_rows:
            raise ValueError("prefill_tokens_max must be at least staging_rows")


class FrameStream(Protocol):
    """The frames of one request. The holder must `aclose` it. Closing an unfinished one aborts the
    sequence within one step, and never waits for it."""

    def __aiter__(self) -> AsyncIterator[Frame]: ...

    async def __anext__(self) -> Frame: ...

    async def aclose(self) -> None: ...


class EmbeddingStream(Protocol):
    """The frames of one request, until every input has its vector. The holder must `aclose` it.
    Closing an unfinished one takes the remaining inputs out of the next batch."""

    def __aiter__(self) -> AsyncIterator[EmbeddingFrame]: ...

    async def __anext__(self) -> EmbeddingFrame: ...

    async def aclose(self) -> None: ...


class EngineLife(Protocol):
    """The life of every engine, whatever it makes: it batches, and computes on a thread of its own.
    All methods are called on one event loop."""

    @property
    def context_tokens(self) -> int: ...

    async def start(self) -> None:
        """Load the model and begin. Raises `CheckpointUnsupported` for a model that it cannot
        run."""
        ...

    async def sleep(self) -> None:
        """Let go of weights, keys, values and caches. Called while nothing is open. Totals go
        on, and the engine is well. Calls raise `EngineAsleep` until it is woken."""
        ...

    async def wake(self) -> None:
        """Load the model again. Raises as `start`, and the engine is not well then."""
        ...

    def abort(self, request_id: str) -> None: ...

    def stats(self) -> EngineStats: ...

    def health(self) -> str | None:
        """None when the engine is well, else the reason why it is not."""
        ...

    async def stop(self) -> None: ...


class Engine(EngineLife, Protocol):
    """Generates text, batching continuously."""

    def generate(self, request: GenerationRequest) -> FrameStream:
        """Admit a request at once, or raise `ContextLengthExceeded`, `PromptInvalid`,
        `UnsupportedParameter`, `EngineOverloaded`, `RequestInFlight` or `EngineFailed`. Iterating
        raises `GenerationAborted` or `EngineFailed` when the answer ends early."""
        ...

    async def constrain(self, guide: Guide) -> Constraint:
        """Compile a guide, beside the loop. Raises `GuideInvalid` with the field whose schema
        cannot be followed."""
        ...


class EmbeddingEngine(EngineLife, Protocol):
    def embed(self, request: EmbeddingRequest) -> EmbeddingStream:
        """Admit a request as `Engine.generate` does. A frame may hold any of the inputs."""
        ...


class Chat(Protocol):
    """Turns messages into the token ids that an engine continues."""

    def prompt_token_ids(
        self,
        messages: Iterable[object],
        tools: Sequence[dict[str, Any]] = (),
        rendering: Rendering = RENDERING,
    ) -> tuple[int, ...]:
        """The token ids of messages. Raises `PromptInvalid` if the template refuses them,
        `UnsupportedParameter` if it knows no tools."""
        ...


class Bound(NamedTuple):
    """How many tokens of a prompt are left, and at which end of it."""

    tokens: int
    keeps_last: bool

    def cut(self, token_ids: tuple[int, ...]) -> tuple[int, ...]:
        if len(token_ids) <= self.tokens:
            return token_ids
        return token_ids[-self.tokens :] if self.keeps_last else token_ids[: self.tokens]


class Text(Protocol):
    """Turns plain text, which may spell special tokens, into token ids."""

    def token_ids(self, text: str, bound: Bound | None = None) -> tuple[int, ...]:
        """The ids of a text, with the special tokens that the tokenizer puts around it, also where
        the text is cut."""
        ...


class EngineError(Exception):
    """An engine refuses a request or fails."""


class ContextLengthExceeded(EngineError):
    """The prompt is too long. `room_tokens` is what it must leave for an answer."""

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
    """A schema cannot be followed. It is no schema, or asks for something that is not checked here,
    or is too much work."""

    def __init__(self, message: str, *, param: str) -> None:
        super().__init__(message)
        self.param = param


class EngineOverloaded(EngineError):
    """Every slot is taken and the queue is full."""


class RequestInFlight(EngineError):
    """A request of that id is being generated already."""


class GenerationAborted(EngineError):
    """The sequence was aborted, and not by its reader."""


class EngineAsleep(EngineError):
    """The engine holds no model now. Another replica may answer."""

    def __init__(self) -> None:
        super().__init__("this worker sleeps")


class EngineFailed(EngineError):
    """The engine has stopped or broken. The worker should be replaced."""


class CheckpointUnsupported(EngineError):
    """The model folder holds something this engine would compute wrongly."""
