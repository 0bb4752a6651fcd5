"""The words of routing: what is wanted, what there is, and what was decided.

Owns plain frozen values only. Knows no HTTP, no Redis, no SQL and no clock; every time here is
an argument or a field. Guards law 5: the same (call, snapshot, policy, seed) decides the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

AUTO_MODEL = "auto"


class Clock(Protocol):
    """Seconds since the epoch; the one real clock is made in a composition root."""

    def __call__(self) -> float: ...


class Tier(StrEnum):
    """Service tiers, in OpenAI's words; `auto` is resolved before a call reaches routing."""

    PRIORITY = "priority"
    DEFAULT = "default"
    FLEX = "flex"


class Task(StrEnum):
    """What a model is for: continuing text, or placing it in a vector space."""

    GENERATE = "generate"
    EMBED = "embed"


class CapacityClass(StrEnum):
    RESERVED = "reserved"
    ON_DEMAND = "on_demand"
    SPOT = "spot"
    EXTERNAL = "external"


EXTERNAL = CapacityClass.EXTERNAL  # what an enum names costs Python 3.11 a function call


class ReplicaState(StrEnum):
    COLD = "COLD"
    STARTING = "STARTING"
    SLEEPING = "SLEEPING"
    WARM = "WARM"
    DRAINING = "DRAINING"


class Call(NamedTuple):
    """What a caller wants, free of HTTP.

    `models` are the public names the call may end on: one, or several for `auto`.
    `prompt_tokens` is per model name, since each model has its own tokenizer: of all prompts
    together. `longest_prompt_tokens` is that of the longest one, where a call has several.
    """

    request_id: str
    organization: str
    project: str
    key: str
    model_requested: str
    models: tuple[str, ...]
    tier: Tier
    stream: bool
    prompt_tokens: Mapping[str, int]
    output_tokens_max: int
    arrived_s: float
    deadline_s: float
    """Absolute, on the gateway's clock."""
    task: Task = Task.GENERATE
    longest_prompt_tokens: Mapping[str, int] | None = None
    capacity_classes: frozenset[CapacityClass] | None = None
    """Those that the caller may use; None is every one."""

    def context_needed(self, model: str) -> int:
        """Tokens of context that the longest prompt takes, with room for one more to follow."""
        longest = self.longest_prompt_tokens or self.prompt_tokens
        return longest[model] + (self.task is Task.GENERATE)


@dataclass(frozen=True, slots=True)
class Replica:
    id: str
    address: str
    state: ReplicaState
    since_ms: int
    running: int
    queued: int


@dataclass(frozen=True, slots=True)
class Pool:
    """Interchangeable replicas of one variant on one kind of hardware and capacity class."""

    name: str
    model: str
    variant: str
    capacity_class: CapacityClass
    max_replicas: int
    max_ongoing: int
    cost_nanousd_per_s: int
    cost_input_nanousd_per_mtok: int
    cost_output_nanousd_per_mtok: int
    cold_start_s: float
    base_url: str | None = None
    api_key_env: str | None = None
    upstream_model: str | None = None
    prefill_tokens_per_s: float = 4000.0
    decode_tokens_per_s: float = 100.0

    @property
    def is_external(self) -> bool:
        return self.capacity_class is EXTERNAL


@dataclass(frozen=True, slots=True)
class Model:
    """A public model name; `quality` orders models from 0 (worst) to 1 (best)."""

    name: str
    path: str | None
    context_tokens: int
    max_output_tokens: int
    size_rank: int
    quality: float
    task: Task = Task.GENERATE
    created_s: int = 0
    image_tokens: int | None = None
    """The most tokens of a prompt that one image may cost; None where images are not taken."""


@dataclass(frozen=True, slots=True)
class PoolState:
    """A pool with its replicas at one instant; `in_flight` is this gateway's open attempts."""

    pool: Pool
    replicas: tuple[Replica, ...]
    waiting: int
    in_flight: Mapping[str, int] = field(default_factory=dict)
    blocked_reason: str | None = None
    """Why the controller will not start it now (a failing start that backs off), if so."""


class FleetSnapshot(NamedTuple):
    """The fleet at `at_s`, by pool name, and the models it serves."""

    at_s: float
    models: Mapping[str, Model]
    pools: tuple[PoolState, ...]


class Candidate(NamedTuple):
    """One pool weighed for one call.

    `score_nanousd` is what the choice costs us, all told (lower is better): expected cost of
    running it, the price this tier puts on waiting, and on less quality or more risk.
    """

    pool: str
    model: str
    variant: str
    capacity_class: CapacityClass
    tier: Tier
    eligible: bool
    score_nanousd: int
    cost_nanousd: int
    wait_s: float
    reason: str


class Decision(NamedTuple):
    """Ordered candidates, the best first; those that were ruled out stand last with a reason."""

    rule: str
    policy_revision: int
    candidates: tuple[Candidate, ...]

    @property
    def eligible(self) -> tuple[Candidate, ...]:
        return tuple([c for c in self.candidates if c.eligible])

    @property
    def chosen(self) -> Candidate:
        return self.candidates[0]

    def as_dict(self) -> dict[str, Any]:
        """As records keep it."""
        return {
            "rule": self.rule,
            "policy_revision": self.policy_revision,
            "candidates": [candidate._asdict() for candidate in self.candidates],
        }


class RefusalKind(StrEnum):
    NO_POOL = "no_pool"
    CONTEXT_LENGTH = "context_length"
    DEADLINE = "deadline"
    CAPACITY = "capacity"
    FORBIDDEN = "forbidden"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A decided no. `retry_after_s` is when the best candidate would be able to answer, if it is
    started now: `soonest_pool`, where only time is lacking."""

    kind: RefusalKind
    message: str
    retry_after_s: float | None
    candidates: tuple[Candidate, ...]
    soonest_pool: str | None = None
