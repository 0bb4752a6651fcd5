"""The part of the published catalog that concerns workers: models with a path, own pools.

Reads the JSON that a gateway publishes under `sluice:catalog`; knows nothing of the tables behind
it. A missing catalog is not an empty one: a wiped Redis must never remove a pool.
"""

from typing import cast

import msgspec
from redis.asyncio import Redis

CATALOG_KEY = "sluice:catalog"
EMBED = "embed"
"""The task of models that embed; all others generate."""


class Model(msgspec.Struct, frozen=True):
    name: str
    path: str | None = None
    context_tokens: int = 2048
    task: str = "generate"


class Pool(msgspec.Struct, frozen=True):
    """One pool as the controller needs it. `max_ongoing`: calls one replica works on at once."""

    name: str
    model: str
    variant: str = "default"
    base_url: str | None = None
    min_replicas: int = 0
    max_replicas: int = 1
    initial_replicas: int = 0
    idle_s: float = 300.0
    num_cpus: float = 0.1
    num_gpus: float = 0.0
    engine: str | None = None
    max_ongoing: int = 8
    cold_start_s: float = 10.0
    cost_nanousd_per_s: int = 0
    enabled: bool = True


class Catalog(msgspec.Struct, frozen=True):
    revision: int
    models: tuple[Model, ...] = ()
    pools: tuple[Pool, ...] = ()

    @property
    def own_pools(self) -> tuple[Pool, ...]:
        """The pools that run here: enabled, no external base URL, a model with a path."""
        here = {model.name for model in self.models if model.path}
        return tuple(p for p in self.pools if p.enabled and p.base_url is None and p.model in here)

    def model_of(self, pool: Pool) -> Model:
        return next(model for model in self.models if model.name == pool.model)


async def read_catalog(redis: Redis) -> Catalog | None:
    """The published catalog, None while none is published. Raises msgspec.ValidationError."""
    raw = cast(bytes | None, await redis.get(CATALOG_KEY))
    return None if raw is None else msgspec.json.decode(raw, type=Catalog)
