"""[[nodes]]: the types of nodes that may be started, declared once for settings, the cluster and
the gateway. Owns the rules that hold inside of one type."""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from workers.nodes.capacity import BadCapacityFile, CapacityTrace, read_capacity

HEAD = "head"
"""The type of the node that runs Ray's own services, which no replica runs on."""
INTEGER_MAX = 2**31 - 1
MB = 1_000_000

SYSTEM_MEMORY_MB = 512
SYSTEM_SHARE = 0.25
"""What of a node's memory is no replica's where its type does not say: so many MB, and of a small
node this share."""

DRAIN_S = 30.0
"""How long a node that is drained still runs, where nobody says otherwise."""

Market = Literal["reserved", "on_demand", "spot"]
MARKET_LABELS: dict[str, str] = {
    "reserved": "reserved",
    "on_demand": "on-demand",
    "spot": "spot",
}
"""What `ray.io/market-type` says; the last two are Ray's own words."""
TypeName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
LabelValue = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$")]


class NodeState(StrEnum):
    LAUNCHING = "launching"
    READY = "ready"
    DRAINING = "draining"
    LOST = "lost"
    GONE = "gone"


ENDED = frozenset({NodeState.LOST, NodeState.GONE})


class NodeType(BaseModel):
    """One type of node, with how many of it there may be."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: TypeName
    market: Market = "on_demand"
    zone: LabelValue | None = None
    region: LabelValue | None = None
    accelerator: LabelValue | None = None
    cpus: int = Field(1, strict=True, ge=1, le=INTEGER_MAX)
    gpus: int = Field(0, strict=True, ge=0, le=INTEGER_MAX)
    memory_mb: int | None = Field(None, strict=True, ge=1, le=INTEGER_MAX)
    system_memory_mb: int | None = Field(None, strict=True, ge=0, le=INTEGER_MAX)
    min: int = Field(0, strict=True, ge=0, le=INTEGER_MAX)
    max: int = Field(1, strict=True, ge=1, le=INTEGER_MAX, validate_default=True)
    cost_nanousd_per_s: int = Field(0, strict=True, ge=0, le=2**53)
    capacity_file: Path | None = None
    capacity_speed: float = Field(1.0, gt=0, le=1e9)
    notice_s: float = Field(0.0, ge=0, le=86_400)
    spares: int = Field(0, strict=True, ge=0, le=INTEGER_MAX)
    notices: Literal["aws", "gcp", "azure"] | None = None
    notices_url: Annotated[str, Field(pattern=r"^http://[^/?#@\s]+$")] | None = None
    weights_gb: float | None = Field(None, gt=0, le=1e6)

    @model_validator(mode="before")
    @classmethod
    def _usd_as_text(cls, value: Any) -> Any:
        """Money may be written in USD, as text, as everywhere in the settings."""
        if not isinstance(value, Mapping) or "cost_usd_per_s" not in value:
            return value
        rest = {key: each for key, each in value.items() if key != "cost_usd_per_s"}
        return rest | {"cost_nanousd_per_s": _nanousd(value["cost_usd_per_s"])}

    @field_validator("name")
    @classmethod
    def _is_not_the_head(cls, name: str) -> str:
        if name == HEAD:
            raise _wrong("the node of Ray's own services is called that: give yours another name")
        return name

    @field_validator("max")
    @classmethod
    def _holds_the_least(cls, most: int, info: ValidationInfo) -> int:
        if most < info.data.get("min", 0):
            raise _wrong("less than min")
        return most

    @field_validator("system_memory_mb")
    @classmethod
    def _leaves_some(cls, system_mb: int | None, info: ValidationInfo) -> int | None:
        memory_mb = info.data.get("memory_mb")
        if system_mb is not None and memory_mb is not None and system_mb >= memory_mb:
            raise _wrong("not less than memory_mb, so nothing is left for replicas")
        return system_mb

    @field_validator("capacity_file")
    @classmethod
    def _is_readable(cls, path: Path | None) -> Path | None:
        try:
            if path is not None:
                read_capacity(path)
        except BadCapacityFile as broken:
            raise _wrong(str(broken)) from broken
        return path

    @property
    def labels(self) -> dict[str, str]:
        """What Ray's scheduler sees of a node."""
        labels = {
            "ray.io/node-group": self.name,
            "ray.io/market-type": MARKET_LABELS[self.market],
            "ray.io/availability-zone": self.zone,
            "ray.io/availability-region": self.region,
            "ray.io/accelerator-type": self.accelerator,
        }
        return {key: value for key, value in labels.items() if value is not None}

    @property
    def replica_memory_mb(self) -> int | None:
        """The memory of a node that replicas may take: without what Ray's own processes, its object
        store and the system need. None: nobody says how much there is."""
        if self.memory_mb is None:
            return None
        system_mb = self.system_memory_mb
        if system_mb is None:
            system_mb = min(SYSTEM_MEMORY_MB, int(self.memory_mb * SYSTEM_SHARE))
        return self.memory_mb - system_mb

    @property
    def resources(self) -> dict[str, float]:
        """What a node has for replicas, in Ray's words."""
        memory = (self.replica_memory_mb or 0) * MB
        amounts = {"CPU": self.cpus, "GPU": self.gpus, "memory": memory}
        return {name: float(amount) for name, amount in amounts.items() if amount}

    def capacity(self) -> CapacityTrace | None:
        """How many nodes there may be over time; None: as many as `max`."""
        return None if self.capacity_file is None else read_capacity(self.capacity_file)


def _each_once(types: tuple[NodeType, ...]) -> tuple[NodeType, ...]:
    names = [type.name for type in types]
    if twice := [name for name in names if names.count(name) > 1]:
        raise _wrong(f"{twice[0]} stands twice")
    return types


def with_folder(table: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Settings as they are written, with the capacity files of their nodes in the folder that their
    file is in."""
    nodes = table.get("nodes")
    if not isinstance(nodes, list):
        return dict(table)
    return {**table, "nodes": [_with_folder(node, folder) for node in nodes]}


def _with_folder(node: Any, folder: Path) -> Any:
    if not isinstance(node, dict) or not isinstance(node.get("capacity_file"), str):
        return node
    return node | {"capacity_file": str(folder / node["capacity_file"])}


NodeTypes = Annotated[tuple[NodeType, ...], AfterValidator(_each_once)]


def _nanousd(usd: Any) -> Any:
    """Nano-USD of a text; what is none is left for the field to refuse."""
    try:
        amount = Decimal(usd) * 10**9 if isinstance(usd, str) else None
    except InvalidOperation:
        amount = None
    return usd if amount is None or amount != amount.to_integral_value() else int(amount)


def _wrong(words: str) -> PydanticCustomError:
    return PydanticCustomError("nodes", "{words}", {"words": words})
