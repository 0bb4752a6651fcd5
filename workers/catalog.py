"""The part of the published catalog that concerns workers: models with a path, their variants, and
pools that run here.

Reads the JSON that a gateway publishes under `sluice:catalog`. Knows nothing of the tables behind
it. A missing catalog is not an empty one: a wiped Redis must never remove a pool.
"""

from datetime import datetime
from typing import cast

import msgspec
from redis.asyncio import Redis

from routing.dated_prices import DatedCost, cost_at
from routing.economics.roofline import Roofline
from workers.weights.sources import HUB, S3

CATALOG_KEY = "sluice:catalog"
EMBED = "embed"
"""The task of models that embed; all others generate."""


class Model(msgspec.Struct, frozen=True):
    name: str
    path: str | None
    context_tokens: int
    task: str
    checksum: str | None = None
    """The id of its checkpoint; a folder that no gateway took into its store has none."""
    origin: str | None = None
    """Where its files are, if not in the store of a gateway; or what was declared."""

    @property
    def source(self) -> str | None:
        """What nodes fetch from, besides the store of a gateway."""
        return self.origin if self.origin and self.origin.startswith((HUB, S3)) else None


class Variant(msgspec.Struct, frozen=True):
    """A set of weights of a model; what is None is as its model has it."""

    model: str
    name: str
    path: str | None
    context_tokens: int | None
    checksum: str | None = None
    origin: str | None = None


class PoolPrice(msgspec.Struct, frozen=True):
    """What a second of a replica costs from an instant on. None: as the pool says."""

    starts_at: datetime
    cost_nanousd_per_s: int | None = None

    @property
    def value(self) -> DatedCost:
        return DatedCost(round(self.starts_at.timestamp() * 1e6), self.cost_nanousd_per_s)


class Pool(msgspec.Struct, frozen=True):
    """One pool as the controller needs it: what it may say and its defaults are the gateway's,
    whose document has every field. `max_ongoing`: calls one replica works on at once."""

    name: str
    model: str
    variant: str
    base_url: str | None
    min_replicas: int
    max_replicas: int
    initial_replicas: int
    idle_s: float
    num_cpus: float
    num_gpus: float
    engine: str | None
    max_ongoing: int
    cold_start_s: float
    cost_nanousd_per_s: int
    enabled: bool
    prices: tuple[PoolPrice, ...] = ()
    """A gateway of before publishes none, and nothing of nodes."""
    capacity_class: str = "reserved"
    market: str | None = None
    zone: str | None = None
    accelerator: str | None = None
    nodes: str | None = None
    num_nodes: int = 1
    memory_mb: int | None = None
    sleep_idle_s: float | None = None

    def cost_at(self, at_us: int) -> int:
        """Nano-USD for a second of a replica."""
        dated = cost_at([price.value for price in self.prices], at_us)
        cost = None if dated is None else dated.cost_nanousd_per_s
        return self.cost_nanousd_per_s if cost is None else cost


class Catalog(msgspec.Struct, frozen=True):
    revision: int
    models: tuple[Model, ...]
    pools: tuple[Pool, ...]
    variants: tuple[Variant, ...] = ()
    """A gateway of before publishes none."""
    rooflines: dict[str, Roofline] = {}
    """What simulated pools take their time from, by pool."""

    @property
    def own_pools(self) -> tuple[Pool, ...]:
        """The pools that run here: enabled, no external base URL, a model with a path."""
        here = {model.name for model in self.models if model.path}
        return tuple(p for p in self.pools if p.enabled and p.base_url is None and p.model in here)

    def model_of(self, pool: Pool) -> Model:
        """The model of a pool, with the weights and the context of its variant."""
        model = next(model for model in self.models if model.name == pool.model)
        key = (pool.model, pool.variant)
        variant = next((each for each in self.variants if (each.model, each.name) == key), None)
        if variant is None:
            return model
        context_tokens = variant.context_tokens or model.context_tokens
        weights = variant if variant.path else model
        return msgspec.structs.replace(
            *(model,),
            context_tokens=context_tokens,
            path=weights.path,
            checksum=weights.checksum,
            origin=weights.origin,
        )


async def read_catalog(redis: Redis) -> Catalog | None:
    """The published catalog, None while none is published. Raises msgspec.ValidationError."""
    raw = cast(bytes | None, await redis.get(CATALOG_KEY))
    return None if raw is None else msgspec.json.decode(raw, type=Catalog)
