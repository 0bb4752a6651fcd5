"""Pools, what one cheap call of an external one came to, and the live fleet."""

from typing import Literal

from pydantic import AliasPath, Field, NonNegativeInt, computed_field
from sqlmodel._compat import SQLModelConfig

from gateway.api.schemas import Answer, At, Body, NoneIfEmpty, TokenCounts, Usd, read_from
from gateway.catalog.pool import CapacityClassName, PoolFields
from gateway.catalog.tables import PoolRow
from gateway.fields import Several
from gateway.instants import InstantText
from routing.gauges import Gauges
from routing.health.breaker import BreakerState
from routing.health.failures import FailureKind
from routing.types import ReplicaState
from workers.autoscaling.demand import Terms
from workers.autoscaling.mixes import Share
from workers.autoscaling.stages import Stage


class WakeBody(Body):
    replicas: Several = 1


class SleepBody(Body):
    to: Literal["sleeping", "cold"] = "sleeping"


class PoolOrderAnswer(Answer):
    """An order that is on its way to the controller."""

    object: Literal["pool_order"] = "pool_order"
    pool: str
    replicas: NonNegativeInt = Field(description="so many at least; 0: none that is awake")
    to: Literal["warm", "sleeping", "cold"] = Field(description="the rung that was ordered")


class PoolBody(PoolFields):
    capacity_class: CapacityClassName


class PoolPriceAnswer(Answer):
    """What a pool costs from an instant on; null is as the pool says without a date."""

    starts_at: InstantText = Field(serialization_alias="from")
    cost_usd_per_s: Usd | None = Field(validation_alias="cost_nanousd_per_s")
    cost_input_usd_per_mtok: Usd | None = Field(validation_alias="cost_input_nanousd_per_mtok")
    cost_output_usd_per_mtok: Usd | None = Field(validation_alias="cost_output_nanousd_per_mtok")
    cost_cached_input_usd_per_mtok: Usd | None = Field(
        None, validation_alias="cost_cached_input_nanousd_per_mtok"
    )
    cost_usd_per_unit: Usd | None = Field(None, validation_alias="cost_nanousd_per_unit")


class PoolAnswer(PoolFields, Answer):
    """Money is written in USD and, under its names of before, in nano-USD."""

    model_config = SQLModelConfig(alias_generator=lambda name: name)
    object: Literal["pool"] = "pool"
    name: str
    prices: list[PoolPriceAnswer]  # type: ignore[assignment]
    enabled: bool
    source: str
    blocked: str | None = Field(description="why it takes no call, if so")

    @classmethod
    def of(cls, row: PoolRow, blocked: str | None) -> "PoolAnswer":
        """Unchecked: a pool of before may break a rule of now, and `blocked` says which."""
        prices = [PoolPriceAnswer.model_validate(price) for price in row.prices]
        return cls.model_construct(**row.model_dump() | {"prices": prices}, blocked=blocked)

    @computed_field
    def cost_usd_per_s(self) -> Usd:
        return self.cost_nanousd_per_s

    @computed_field
    def cost_input_usd_per_mtok(self) -> Usd:
        return self.cost_input_nanousd_per_mtok

    @computed_field
    def cost_output_usd_per_mtok(self) -> Usd:
        return self.cost_output_nanousd_per_mtok

    @computed_field
    def cost_cached_input_usd_per_mtok(self) -> Usd | None:
        return self.cost_cached_input_nanousd_per_mtok

    @computed_field
    def cost_usd_per_unit(self) -> Usd:
        return self.cost_nanousd_per_unit


class PoolCheckAnswer(Answer):
    model_config = read_from("check")
    object: Literal["pool_check"] = "pool_check"
    pool: str = Field(validation_alias=AliasPath("row", "name"))
    base_url: str = Field(validation_alias=AliasPath("row", "base_url"))
    upstream_model: str = Field(validation_alias=AliasPath("row", "upstream_model"))
    ok: bool = Field(validation_alias=AliasPath("check", "is_ok"))
    outcome: str
    status: int | None
    detail: str | None
    hint: NoneIfEmpty
    took_ms: int
    usage: TokenCounts | None


class ServedModelAnswer(Answer):
    """What an external server calls a model, and how large it says that it is."""

    id: str
    context_tokens: NonNegativeInt | None = Field(description="null: it does not say")


class FleetFetch(Answer):
    id: str = Field(description="of the checkpoint: the SHA-256 of what is in it")
    bytes_here: NonNegativeInt
    bytes_total: NonNegativeInt
    bytes_per_s: NonNegativeInt = Field(description="as measured; 0 at first")


class FleetBreaker(Answer):
    """Whether a replica or a server outside may be asked."""

    state: BreakerState = Field(description="`cooling`: its server asked to be left alone")
    reason: FailureKind | None = Field(description="why it opened or cools down; null: nothing")
    next_probe_at: At | None = Field(description="when it may be asked next; null: now")


class FleetReplica(Answer):
    id: str
    address: str
    state: ReplicaState
    since_ms: int
    running: NonNegativeInt
    queued: NonNegativeInt
    gauges: Gauges | None = Field(description="the replica's own words, in tokens")
    pid: int | None = Field(description="of its process, once it has one")
    stage: Stage | None = Field(description="where its start is; null once it has started")
    eta_s: float | None = Field(description="how long its start goes on, by those before it")
    node: str | None = Field(description="where it is; null: on the one node of this machine")
    ends_ms: int | None = Field(
        description="when its calls end at the latest, as its node leaves; null: nothing ends them"
    )
    fetch: FleetFetch | None = Field(description="how its checkpoint comes; null while none does")
    breaker: FleetBreaker = Field(description="as this gateway and those that it hears see it")


class FleetPool(Answer):
    name: str
    target: NonNegativeInt
    reason: str
    cold_start_s: float | None
    wake_s: float | None = Field(description="from sleep to warm, measured")
    waiting: NonNegativeInt
    blocked: str | None
    ready_at_ms: int | None
    gone: Literal["replica", "ray", "cluster"] | None
    terms: Terms | None = Field(description="the numbers of the decision on `target`")
    mix: Share | None = Field(description="what its mix decided; null: it is in none")
    replicas: list[FleetReplica]
    breaker: FleetBreaker | None = Field(description="of a server outside; null: it has replicas")


class GatewayLoad(Answer):
    open_calls: NonNegativeInt
    unsettled_calls: NonNegativeInt
    in_flight: dict[str, NonNegativeInt] = Field(description="attempts by replica")


class FleetAnswer(Answer):
    object: Literal["fleet"] = "fleet"
    age_s: float
    is_stale: bool = Field(description="too old to be believed: replicas count as full")
    controller: str = Field(description="the one that leads, as of the last snapshot; empty: none")
    epoch: NonNegativeInt = Field(description="of its lead: the next one has a higher one")
    spares: dict[str, NonNegativeInt] = Field(description="that run, by the type of their node")
    pools: list[FleetPool]
    gateway: GatewayLoad
