"""The words of routing: the call, the fleet, and the decision.

Owns plain frozen values only. Knows no HTTP, no Redis, no SQL and no clock: every time here is an
argument or a field. Guards law 5: the same (call, snapshot, policy, seed) decides the same.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from types import MappingProxyType
from typing import NamedTuple, Protocol

from routing.economics.rates import PRIOR_CALLS_PER_START
from routing.gauges import Gauges
from routing.hardware.catalogue import Hardware
from routing.health.breaker import BreakerState
from routing.health.failures import FailureKind
from routing.policy.action import Matched
from routing.speeds import Speeds, guessed_speeds
from routing.variants import Validation, Variant

AUTO_MODEL = "auto"
SIMULATED = "simulated"
"""The engine whose replicas take their time from the roofline of a GPU that is not there."""


class Clock(Protocol):
    """Seconds since the epoch. A composition root makes the one real clock."""

    def __call__(self) -> float: ...


class Tier(StrEnum):
    """Service tiers, in OpenAI's words; `auto` is resolved before a call reaches routing."""

    PRIORITY = "priority"
    DEFAULT = "default"
    FLEX = "flex"


class Task(StrEnum):
    """What a model is for: continuing text, placing it in a vector space, ordering documents by
    a question, saying what of a text may harm, writing down what is said in a file, speaking a
    text, or making images of what it describes."""

    GENERATE = "generate"
    EMBED = "embed"
    RERANK = "rerank"
    MODERATE = "moderate"
    TRANSCRIBE = "transcribe"
    SPEAK = "speak"
    IMAGE = "image"

    @property
    def is_outside(self) -> bool:
        """No worker of ours does it."""
        return self not in (Task.GENERATE, Task.EMBED)

    @property
    def verb(self) -> str:
        """What a model does, for sentences."""
        return "make images" if self is Task.IMAGE else self.value


class CapacityClass(StrEnum):
    RESERVED = "reserved"
    ON_DEMAND = "on_demand"
    SPOT = "spot"
    EXTERNAL = "external"


class Continues(StrEnum):
    """How an answer of an external server goes on at it that was cut: it continues the text, or is
    asked anew and compared, or not at all."""

    PREFIX = "prefix"
    ANEW = "anew"
    OFF = "off"


class Offer(StrEnum):
    """How the capacity of a pool is bought: by the second of a replica that comes and goes, as a
    machine that is kept, or as a machine with everything on it."""

    SERVERLESS = "serverless"
    DEDICATED = "dedicated"
    BARE_METAL = "bare_metal"


EXTERNAL = CapacityClass.EXTERNAL  # what an enum names costs Python 3.11 a function call


class ReplicaState(StrEnum):
    COLD = "COLD"
    STARTING = "STARTING"
    SLEEPING = "SLEEPING"
    WARM = "WARM"
    DRAINING = "DRAINING"


PAID_FOR = (ReplicaState.STARTING, ReplicaState.WARM)


@dataclass(frozen=True, slots=True)
class Leave:
    """What a caller may use. None is everything. The narrowest of the caller's three scopes
    counts."""

    models: frozenset[str] | None = None
    tiers: frozenset[str] | None = None
    capacity_classes: frozenset[str] | None = None
    regions: frozenset[str] | None = None
    pools: frozenset[str] | None = None
    data_collection_allowed: bool = True
    """False: only pools whose operator neither keeps prompts nor trains on them."""

    def may_use(self, model: str) -> bool:
        return self.models is None or model in self.models


EVERYTHING = Leave()


class Call(NamedTuple):
    """A call as its caller wants it, free of HTTP.

    `models` are the public names on which the call may end: one, or several for `auto`.
    `prompt_tokens` is per model name, since each model has its own tokenizer, and counts all
    prompts together. `longest_prompt_tokens` is that of the longest prompt, where a call has
    several.
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
    leave: Leave = EVERYTHING
    extra_fields: frozenset[str] = frozenset()
    """Fields of its body that only pools may have which say that they take them."""
    output_tokens_expected: float | None = None
    """Of all answers together. None: nobody knows."""
    estimated: frozenset[str] = frozenset()
    """Models whose `prompt_tokens` the tokenizer of another one has counted."""
    quality_deviations: Mapping[str, float] | None = None
    """By model or variant, the log-odds by which this prompt suits it better than the average one.
    A variant that is not in it is taken as its model, and what neither is in it has the quality of
    its table."""
    prompt_tokens_expected: Mapping[str, int] | None = None
    """Of models whose `prompt_tokens` are a bound by bytes. None: there are none."""
    tenant_tier: str = ""
    """Of the organization, as the operator wrote it. Not the service tier, which is `tier`."""
    prefix_tokens: Mapping[str, int] | None = None
    """By pool, how many first tokens of the prompt were computed there lately, as far as it is
    known. None: nowhere."""
    uncovered: frozenset[str] = frozenset()
    """Models of the call that the tenant's money was found not to cover."""
    unit: str = ""
    """What it may be sold by beside its tokens."""
    units: Mapping[str, int] = {}
    """By model the most units that it may come to."""

    def likely_prompt_tokens(self, model: str) -> int:
        """What decisions reckon with; money is held for `prompt_tokens`."""
        expected = self.prompt_tokens_expected
        if expected is None or model not in expected:
            return self.prompt_tokens[model]
        return expected[model]

    def context_needed(self, model: str) -> int:
        """Tokens of context for the longest prompt, with room for one more to follow."""
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
    gauges: Gauges | None = None
    """Its own words; None where it has said none, or too long ago."""


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
    adapter: str | None = None
    """What speaks to a server outside whose API is its own. None: we do, by OpenAI's."""
    hardware: str | None = None
    gpus_per_replica: int | None = None
    offer: Offer = Offer.SERVERLESS
    region: str | None = None
    zone: str | None = None
    provider: str | None = None
    retention_days: int | None = None
    """How long an external server keeps prompts. 0: not at all; None: nobody knows."""
    trains: bool | None = None
    """Whether an external server trains on prompts. None: nobody knows."""
    extra_fields: tuple[str, ...] = ()
    """Fields that go on to this server outside as they are, beside those that every one is told."""
    declared: Variant | None = None
    """Its variant, where that was declared. None: `variant` is a label that says no more."""
    part: Hardware | None = None
    """What `hardware` names. None: it names nothing."""
    idle_s: float = 300.0
    """How long a replica without traffic stays."""
    cost_cached_input_nanousd_per_mtok: int | None = None
    """Of tokens of a prompt that a server outside has cached. None: as of others."""
    cost_nanousd_per_unit: int = 0
    """Of what the model is sold by beside its tokens, at a server outside."""
    cache_s: float = 300.0
    """How long a server outside keeps a prompt in its cache after its last use."""
    engine: str | None = None
    """What runs it. None: what its model asks for."""
    speed: float | None = None
    """How many times faster than its hardware simulated replicas are. None: they are as fast."""
    continues: Continues = Continues.ANEW
    connect_timeout_s: float | None = None
    """Of a server outside, as the two below. None: as the gateway is set."""
    first_token_timeout_s: float | None = None
    idle_timeout_s: float | None = None

    @property
    def is_simulated(self) -> bool:
        return self.engine == SIMULATED

    @property
    def is_external(self) -> bool:
        return self.capacity_class is EXTERNAL

    @property
    def quantization(self) -> str:
        """The precision of its weights, as far as it is known."""
        return self.variant if self.declared is None else self.declared.quantization.value

    @property
    def gpus(self) -> int:
        """Of a replica."""
        declared = 1 if self.declared is None else self.declared.gpus_per_replica
        return self.gpus_per_replica or declared

    def validation(self, use_case: str) -> Validation | None:
        """What the quality of its variant was measured to be. None: it was not."""
        return None if self.declared is None else self.declared.quality.get(use_case)

    def context_tokens(self, model: "Model") -> int:
        """The longest context that its replicas were made for."""
        declared = None if self.declared is None else self.declared.context_tokens
        return declared or model.context_tokens

    @property
    def collects_data(self) -> bool:
        """Whether prompts may be kept or trained on. What nobody knows counts as yes; own workers
        do neither."""
        return self.is_external and not (self.retention_days == 0 and self.trains is False)


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
class PoolHealth:
    """What breakers say against a pool at an instant."""

    state: BreakerState
    reason: FailureKind | None
    until_s: float | None = None
    """When it may be asked next: epoch seconds. None: now."""
    share: float = 1.0
    """Of the calls that it should get: it grows again after a breaker has closed."""

    @property
    def is_left_alone(self) -> bool:
        return self.until_s is not None


@dataclass(frozen=True, slots=True)
class PoolState:
    """A pool with its replicas at one instant."""

    pool: Pool
    replicas: tuple[Replica, ...]
    waiting: int
    blocked_reason: str | None = None
    """Why it takes no call: the controller will not start it now (a failing start that backs off),
    or an external one is not set up to be asked."""
    ready_at_s: float | None = None
    """When a pool without a warm replica that lost its replicas, or starts some, is expected to
    have one: epoch seconds. None: nobody predicts it."""
    is_stale: bool = False
    """What is known of the replicas is too old to be believed. Each counts as full then."""
    learned: Speeds | None = None
    """As this gateway predicts them for this state. None: nothing was learned of the pool."""

    calls_per_start: float = PRIOR_CALLS_PER_START
    """How many calls are expected to share the cost of a start."""
    losses_per_s: float | None = None
    """How often a spot replica of it is lost. None: of no spot pool, or in a record of an older
    release, which took the prior and weighed no work that is lost."""
    kept_share: float = 1.0
    """Of the tokens in `Call.prefix_tokens`: what a server outside is expected to still have."""
    cached_share: float = 0.0
    """Of the other tokens of a prompt: what a server outside is expected to have all the same."""
    health: PoolHealth | None = None
    """None: no breaker has anything against it."""

    @property
    def speeds(self) -> Speeds:
        return self.learned or guessed_speeds(self.pool.max_ongoing)

    @property
    def is_paid_for(self) -> bool:
        """A replica was started for another call. One that drains has to be started again."""
        return any(r.state in PAID_FOR for r in self.replicas)


class FleetSnapshot(NamedTuple):
    """The fleet at `at_s`, and the models it serves, by name. `in_flight` counts open
    attempts by pool, of this gateway now and of others as they said last: what the fleet tells is
    behind by the time of a report."""

    at_s: float
    models: Mapping[str, Model]
    pools: tuple[PoolState, ...]
    in_flight: Mapping[str, int] = MappingProxyType({})


class Candidate(NamedTuple):
    """One pool weighed for one call.

    `score_nanousd` is the whole cost of the choice to us (lower is better). It adds the expected
    cost of running the call and this tier's prices of waiting, of less quality and of more risk.
    `terms` is that sum in words. `reason` has none of our numbers, and is for the tenant too.
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
    terms: str = ""
    ttft_s: float | None = None
    """Expected seconds until the first token. None in records of older releases."""
    is_simulated: bool = False


class Decision(NamedTuple):
    """Candidates in order, the best first. Those that were ruled out stand last, with a reason.

    `shadow` is what the rule's other action would have decided; nothing is sent there."""

    matched: Matched
    seed: int
    candidates: Sequence[Candidate]
    shadow: "Decision | Refusal | None" = None

    @property
    def rule(self) -> str:
        return self.matched.rule

    @property
    def policy_revision(self) -> int:
        return self.matched.policy_revision

    @property
    def eligible(self) -> Iterator[Candidate]:
        """Made one by one: a call that is served by the first needs no other."""
        return takewhile(_is_eligible, self.candidates)

    @property
    def chosen(self) -> Candidate:
        return self.candidates[0]


def _is_eligible(candidate: Candidate) -> bool:
    return candidate.eligible


class RefusalKind(StrEnum):
    """The kinds of a refusal, from those that time cures first to those that it does not. Where a
    caller may not use something, the value is the code of the error."""

    DEADLINE = "deadline"
    CAPACITY = "capacity"
    MISCONFIGURED = "misconfigured"
    CONTEXT_LENGTH = "context_length"
    POLICY = "route_not_allowed"
    """The rule leaves no pool."""
    FORBIDDEN = "capacity_not_allowed"
    OTHER_REGION = "region_not_allowed"
    OTHER_POOL = "pool_not_allowed"
    DATA_COLLECTION = "data_collection_not_allowed"
    NO_POOL = "no_pool"

    @property
    def is_forbidden(self) -> bool:
        return self.value.endswith("_not_allowed")

    @property
    def is_incurable(self) -> bool:
        return self is RefusalKind.CONTEXT_LENGTH or self.is_forbidden


@dataclass(frozen=True, slots=True)
class Refusal:
    """A decided no. `retry_after_s` is when the best candidate would be able to answer, if it is
    started now. Where only time is lacking, that candidate is `soonest_pool`."""

    kind: RefusalKind
    message: str
    retry_after_s: float | None
    candidates: Sequence[Candidate]
    soonest_pool: str | None
    matched: Matched
    seed: int
