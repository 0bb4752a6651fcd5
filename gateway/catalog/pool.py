"""What can be said of a pool, declared once: for settings, declarations, the admin API, the row in
SQL and the OpenAPI document.

Owns the rules that hold inside of one pool, each told at its key; knows no other table.
"""

from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError
from sqlalchemy import JSON, BigInteger, String
from sqlmodel import Field as Column
from sqlmodel import SQLModel
from sqlmodel._compat import SQLModelConfig

from billing.costs.capacity import SPARES
from billing.written_usd import CostUsd, WrittenUsd
from gateway.catalog.external import LITELLM, TRITON
from gateway.fields import DAY_S, INTEGER_MAX, YEAR_S, Count, Label, Several
from gateway.instants import InstantText, instant_us
from gateway.providers.presets import PresetName, filled
from routing.dated_prices import DatedCost
from workers.engines.names import POOL_ENGINES, SIMULATED
from workers.nodes.node_type import Market

HTTP_URL = r"^https?://[^\s/]+\S*$"
EXTERNAL = "external"
UPSTREAM_MODEL_MISSING = (
    "an external pool needs the name that its server knows the model by, "
    'for example upstream_model = "gpt-4o-mini"'
)

OURS = frozenset(
    {
        "model",
        "messages",
        "prompt",
        "input",
        "stream",
        "stream_options",
        "n",
        "best_of",
        "echo",
        "max_tokens",
        "max_completion_tokens",
        "truncate_prompt_tokens",
        "tools",
        "service_tier",
        "provider",
        "disable_fallbacks",
    }
)
"""What decides how a call is counted, held and answered is no server's affair alone."""
EXTRA_FIELDS_MAX = 64
PRICES_MAX = 100
SPEED_MAX = 1000.0
"""Of a simulated replica. Above it Python is slower than what it plays."""

ExtraField = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,63}$")]
CapacityClassName = Literal["reserved", "on_demand", "spot", "external"]
ContinuesName = Literal["prefix", "anew", "off"]
AdapterName = Literal["litellm", "triton"]
OfferName = Literal["serverless", "dedicated", "bare_metal"]
HardwareName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]


def _not_of_spares(name: str) -> str:
    if name == SPARES:
        raise _wrong("what spares cost is called that in the ledger: give the pool another name")
    return name


PoolName = Annotated[
    str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$"), AfterValidator(_not_of_spares)
]
Share = Annotated[float, Field(strict=True, ge=0, le=INTEGER_MAX)]


class PoolPrice(WrittenUsd):
    """What a pool costs from an instant on; what is left out is as the pool says without a date."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True
    )

    starts_at: InstantText = Field(alias="from", description="from when on it holds")
    cost_nanousd_per_s: CostUsd | None = Field(None, description="of a replica")
    cost_input_nanousd_per_mtok: CostUsd | None = Field(None, description="of prompt tokens")
    cost_output_nanousd_per_mtok: CostUsd | None = Field(None, description="of answers")
    cost_cached_input_nanousd_per_mtok: CostUsd | None = Field(
        None, description="of prompt tokens that an external server has cached"
    )
    cost_nanousd_per_unit: CostUsd | None = Field(None, description="of an image or its like")

    @property
    def value(self) -> DatedCost:
        return DatedCost(
            instant_us(self.starts_at),
            self.cost_nanousd_per_s,
            self.cost_input_nanousd_per_mtok,
            self.cost_output_nanousd_per_mtok,
            self.cost_cached_input_nanousd_per_mtok,
            self.cost_nanousd_per_unit,
        )


class PoolFields(SQLModel, WrittenUsd):
    """Interchangeable replicas of one model on one capacity class, or an external server.

    A `Column` says how its value is stored where the type alone does not."""

    model_config = SQLModelConfig(extra="forbid", frozen=True, allow_inf_nan=False)

    model: Label
    variant: Label = "fp16"
    preset: PresetName | None = Column(
        default=None,
        sa_type=String,
        description="a known external server: what the pool leaves out is filled in for it",
    )
    capacity_class: CapacityClassName = Column(default="reserved", sa_type=String)
    engine: str | None = Field(None, description="null: what the task of the model asks for")
    base_url: str | None = Field(
        None, pattern=HTTP_URL, validate_default=True, description="of an external server"
    )
    upstream_model: Label | None = Field(
        None, validate_default=True, description="what an external server calls the model"
    )
    api_key_env: Label | None = None
    adapter: AdapterName | None = Column(
        default=None,
        sa_type=String,
        description="what speaks to an external server that has an API of its own: a process with"
        " litellm, or we do by Triton's generate extension; null: it speaks OpenAI's",
        schema_extra={"validate_default": True},
    )
    hardware: HardwareName | None = Field(
        None, description="what a replica runs on, by its name in the catalogue of hardware"
    )
    speed: float | None = Field(
        None,
        strict=True,
        gt=0,
        le=SPEED_MAX,
        description="how many times faster than its hardware a simulated replica is; null: once",
    )
    gpus_per_replica: Several | None = Field(
        None, description="null: as many as its variant says, else one"
    )
    offer: OfferName = Column(default="serverless", sa_type=String)
    region: Label | None = Field(None, description="where it runs; null is in no region")
    zone: Label | None = Field(None, description="where in its region it runs")
    market: Market | None = Column(
        default=None,
        sa_type=String,
        description="of the nodes that it runs on; null: as capacity_class says",
    )
    accelerator: Label | None = Field(None, description="of the nodes that it runs on; null: any")
    nodes: Label | None = Field(
        None, description="the one type of nodes that it runs on; null: any that fits"
    )
    provider: Label | None = Field(None, description="who runs it")
    retention_days: Count | None = Field(
        None,
        description="how long an external server keeps prompts; 0: not at all, null: nobody knows",
    )
    trains: bool | None = Field(
        None,
        strict=True,
        description="whether an external server trains on prompts; null: nobody knows",
    )
    continues: ContinuesName = Column(
        default="anew",
        sa_type=String,
        description="how an answer that was cut goes on at an external server: it continues the"
        " text, is asked anew and compared, or the stream ends with an error",
        schema_extra={"validate_default": True},
    )
    connect_timeout_s: float | None = Field(
        None,
        strict=True,
        gt=0,
        le=DAY_S,
        description="how long a connection to an external server may take; null: as [gateway] says",
    )
    first_token_timeout_s: float | None = Field(
        None,
        strict=True,
        gt=0,
        le=DAY_S,
        description="how long an external server may take for its first token; null: as [gateway]"
        " says",
    )
    idle_timeout_s: float | None = Field(
        None,
        strict=True,
        gt=0,
        le=DAY_S,
        description="how long an external server may be silent within an answer; null: as"
        " [gateway] says",
    )
    extra_fields: list[ExtraField] = Column(
        default=[],
        sa_type=JSON,
        max_length=EXTRA_FIELDS_MAX,
        description="fields of a body that go on to this external server as they are",
        schema_extra={"validate_default": True},
    )
    min_replicas: Count = 0
    initial_replicas: Count = 0
    max_replicas: Several = Field(1, validate_default=True)
    idle_s: float = Field(300.0, strict=True, gt=0, le=YEAR_S)
    sleep_idle_s: float | None = Field(
        None,
        strict=True,
        gt=0,
        le=YEAR_S,
        description="how long an idle replica sleeps before it goes; null: it goes at once",
    )
    num_cpus: float = Field(0.25, strict=True, gt=0, le=INTEGER_MAX)
    num_gpus: Share = 0.0
    num_nodes: Several = Field(
        1,
        description="how many nodes a replica spans; each gives its part of num_cpus and num_gpus",
    )
    memory_mb: int | None = Field(
        None,
        strict=True,
        ge=1,
        le=INTEGER_MAX,
        description="memory that a replica takes of its nodes; null: it asks for none",
    )
    max_ongoing: Several = 8
    cost_nanousd_per_s: CostUsd = Column(default=0, sa_type=BigInteger)
    cost_input_nanousd_per_mtok: CostUsd = Column(default=0, sa_type=BigInteger)
    cost_output_nanousd_per_mtok: CostUsd = Column(default=0, sa_type=BigInteger)
    cost_cached_input_nanousd_per_mtok: CostUsd | None = Column(
        default=None,
        sa_type=BigInteger,
        description="of prompt tokens that an external server has cached; null: as others",
        schema_extra={"validate_default": True},
    )
    cost_nanousd_per_unit: CostUsd = Column(
        default=0,
        sa_type=BigInteger,
        description="of a search unit, an image, a second or a character, at an external server",
    )
    cache_s: float = Field(
        300.0,
        strict=True,
        gt=0,
        le=YEAR_S,
        description="how long an external server keeps a prompt in its cache after its last use",
    )
    prices: list[PoolPrice] = Column(
        default=[],
        sa_type=JSON,
        max_length=PRICES_MAX,
        description="costs that begin at an instant; before the first one those above hold",
    )
    cold_start_s: float = Field(10.0, strict=True, ge=0, le=DAY_S)

    @model_validator(mode="before")
    @classmethod
    def _filled_by_its_preset(cls, pool: Any) -> Any:
        return filled(pool)

    @field_validator("engine")
    @classmethod
    def _engine_is_known(cls, engine: str | None, info: ValidationInfo) -> str | None:
        if engine is not None and engine not in POOL_ENGINES:
            raise _wrong(f"no engine is named {engine}; there are: {', '.join(POOL_ENGINES)}")
        if engine == SIMULATED and _is_external(info) is True:
            raise _wrong("an external server is none of ours, so it is not simulated")
        return engine

    @field_validator("speed")
    @classmethod
    def _simulated_have_a_speed(cls, speed: float | None, info: ValidationInfo) -> float | None:
        if speed is not None and info.data.get("engine", SIMULATED) != SIMULATED:
            raise _wrong(f'only a pool with engine = "{SIMULATED}" has one')
        return speed

    @field_validator("base_url")
    @classmethod
    def _external_has_a_url(cls, url: str | None, info: ValidationInfo) -> str | None:
        if _is_external(info) not in (url is not None, None):
            raise _wrong("an external pool has one, and only an external one")
        return url

    @field_validator("upstream_model")
    @classmethod
    def _external_names_its_model(cls, name: str | None, info: ValidationInfo) -> str | None:
        if _is_external(info) is True and name is None:
            raise _wrong(UPSTREAM_MODEL_MISSING)
        if _is_external(info) is False and name is not None:
            raise _wrong("only an external pool has one")
        return name

    @field_validator("adapter")
    @classmethod
    def _adapter_is_told_the_provider(cls, name: str | None, info: ValidationInfo) -> str | None:
        if name is not None and _is_external(info) is False:
            raise _wrong("only an external pool has one")
        upstream_model = info.data.get("upstream_model")
        if name == LITELLM and upstream_model is not None and "/" not in upstream_model:
            words = 'write its provider into upstream_model, as in "anthropic/claude-haiku-4-5"'
            raise _wrong(words)
        return name

    @field_validator("extra_fields")
    @classmethod
    def _external_takes_more(cls, names: list[str], info: ValidationInfo) -> list[str]:
        if names and _is_external(info) is False:
            raise _wrong("only an external pool has them")
        if ours := [name for name in names if name in OURS]:
            raise _wrong(f"'{ours[0]}' is read by the gateway itself")
        return names

    @field_validator("cost_cached_input_nanousd_per_mtok")
    @classmethod
    def _cached_tokens_are_cheaper(cls, cost: int | None, info: ValidationInfo) -> int | None:
        if cost is not None and _is_external(info) is False:
            raise _wrong("only an external pool has one")
        if cost is not None and cost > info.data.get("cost_input_nanousd_per_mtok", cost):
            raise _wrong("more than a token costs that is not cached")
        return cost

    @field_validator("retention_days", "trains")
    @classmethod
    def _own_workers_keep_nothing(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value and _is_external(info) is False:
            raise _wrong("own workers keep no prompts and train on none")
        return value

    @field_validator("continues")
    @classmethod
    def _own_workers_go_on_by_tokens(cls, word: str, info: ValidationInfo) -> str:
        if word != "anew" and _is_external(info) is False:
            raise _wrong("only an external pool has one: own workers go on with the next token")
        if word == "prefix" and info.data.get("adapter") == TRITON:
            raise _wrong("Triton goes on with no text of an answer: write anew or off")
        return word

    @field_validator("connect_timeout_s", "first_token_timeout_s", "idle_timeout_s")
    @classmethod
    def _own_workers_have_times_in_common(
        cls, bound_s: float | None, info: ValidationInfo
    ) -> float | None:
        if bound_s is not None and _is_external(info) is False:
            raise _wrong("only an external pool has one: that of own workers stands in [gateway]")
        return bound_s

    @field_validator("prices")
    @classmethod
    def _one_begins_at_an_instant(cls, prices: list[PoolPrice]) -> list[PoolPrice]:
        ordered = sorted(prices, key=lambda price: instant_us(price.starts_at))
        for earlier, later in pairwise(ordered):
            if earlier.starts_at == later.starts_at:
                raise _wrong(f"two begin at {later.starts_at}")
        return ordered

    @field_validator("max_replicas")
    @classmethod
    def _starts_with_no_more(cls, most: int, info: ValidationInfo) -> int:
        if most < max(info.data.get("min_replicas", 0), info.data.get("initial_replicas", 0)):
            raise _wrong("less than the pool starts with")
        return most


def has_own_price(pool: PoolFields) -> bool:
    """Of tokens or units. One that says none may have that of its provider's list."""
    costs = pool.cost_input_nanousd_per_mtok, pool.cost_output_nanousd_per_mtok
    return any(costs) or bool(pool.cost_nanousd_per_unit or pool.prices)


def _is_external(info: ValidationInfo) -> bool | None:
    """None where its class could not be read."""
    value: Any = info.data.get("capacity_class")
    return None if value is None else value == EXTERNAL


def _wrong(words: str) -> PydanticCustomError:
    return PydanticCustomError("pool", "{words}", {"words": words})
