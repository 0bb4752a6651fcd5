"""What there is to serve: models, pools and prices, kept in memory with bounded staleness.

The truth is SQL. Whoever notices a new revision publishes the catalog to Redis, where the
controller reads it; a wiped Redis is published to again. Prices come from the ledger's
publication. Guards the rule that no SQL is on the path of a call.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from redis.asyncio import Redis
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from billing.pricebook import PriceBook, read_published
from gateway.errors import bad_request, model_not_found
from gateway.revision import RevisionWatch
from gateway.store import TenantStore
from gateway.tables import ModelRow, PoolRow
from gateway.tokens import ByteBound, Checkpoints, CheckpointTokens, TokenCounter
from routing.types import AUTO_MODEL, CapacityClass, Model, Pool, Task

log = logging.getLogger(__name__)

CATALOG_KEY = "sluice:catalog"
REVISION_KEY = "sluice:catalog:revision"
PRICES_KEY = "sluice:prices"


@dataclass(frozen=True, slots=True)
class Catalog:
    """One revision of what there is."""

    revision: int = -1
    models: Mapping[str, Model] = field(default_factory=dict)
    pools: tuple[Pool, ...] = ()
    counters: Mapping[str, TokenCounter] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Why the folder of a model cannot be read: such a model is left out, and looked at again."""

    def checkpoint(self, model: str) -> CheckpointTokens:
        """The tokenizer of a model by its public name.

        Raises ApiError 404 for an unknown model, 400 for one whose tokenizer is not here.
        """
        if model == AUTO_MODEL:
            raise bad_request("'auto' has no tokenizer of its own: name a model.", "model")
        if model not in self.models:
            raise model_not_found(model)
        counter = self.counters[model]
        if not isinstance(counter, CheckpointTokens):
            message = f"The tokenizer of '{model}' is not here: an external server has it."
            raise bad_request(message, "model", "tokenizer_not_available")
        return counter


class CatalogKeeper:
    """Keeps `catalog` and `prices` current: what `watch` sees of a new revision is read here."""

    def __init__(
        self,
        store: TenantStore,
        redis: Redis,
        checkpoints: Checkpoints,
        *,
        watch: RevisionWatch,
        poll_s: float,
    ) -> None:
        self._store = store
        self._redis = redis
        self._watch = watch
        self._poll_s = poll_s
        self._prices_raw = b""
        self._checkpoints = checkpoints
        self.catalog = Catalog()
        self.prices = PriceBook(())

    async def run(self) -> None:
        while True:
            await self.refresh()
            await asyncio.sleep(self._poll_s)

    async def refresh(self) -> None:
        """Look once at both sources; what is out of reach is kept as it was, and logged."""
        try:
            await self._read_sql()
        except SQLAlchemyError as unreadable:
            log.error("catalog: kept as it was: %s", unreadable)
        try:
            await self._publish_if_older()
            await self._read_prices()
        except (RedisError, SQLAlchemyError) as unreachable:
            log.warning("catalog: not published, prices kept as they were: %s", unreachable)

    async def _read_sql(self) -> None:
        revision = await self._watch.look()
        if revision == self.catalog.revision and not self.catalog.unreadable:
            return
        loaded = await asyncio.to_thread(self._load)
        if loaded.unreadable != self.catalog.unreadable:
            log.error("catalog: without %s", loaded.unreadable or "nothing any more")
        self.catalog = loaded

    def _load(self) -> Catalog:
        revision, models, pools = self._store.catalog()
        counters, unreadable = self._checkpoints.counters({row.name: row.path for row in models})
        for row in models:
            if row.path is None:
                counters[row.name] = ByteBound(row.image_tokens)
        return Catalog(
            revision=revision,
            models={row.name: _model(row) for row in models if row.name in counters},
            pools=tuple(_pool(row) for row in pools if row.model in counters),
            counters=counters,
            unreadable=unreadable,
        )

    async def _publish_if_older(self) -> None:
        published = await self._redis.get(REVISION_KEY)
        if published is not None and int(published) >= self.catalog.revision:
            return
        rows = await asyncio.to_thread(self._store.catalog)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.set(CATALOG_KEY, _document(*rows))
            pipe.set(REVISION_KEY, rows[0])
            await pipe.execute()

    async def _read_prices(self) -> None:
        raw: bytes | None = await self._redis.get(PRICES_KEY)  # type: ignore[assignment]
        if raw is None or raw == self._prices_raw:
            return
        self._prices_raw = raw
        try:
            self.prices = read_published(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as unreadable:
            log.error("catalog: the published prices cannot be read: %s", unreadable)


def _document(revision: int, models: Sequence[ModelRow], pools: Sequence[PoolRow]) -> bytes:
    return msgspec.json.encode(
        {
            "revision": revision,
            "models": [row.model_dump() for row in models],
            "pools": [row.model_dump() for row in pools],
        }
    )


def unreadable_because(path: str, task: Task) -> str | None:
    """Why a folder cannot be served, or None: blocking, it loads the tokenizer."""
    try:
        checkpoint = CheckpointTokens(Path(path))
    except (OSError, ValueError) as wrong:
        return f"{path}: not a checkpoint folder with a tokenizer: {wrong}"
    if task is Task.GENERATE and not checkpoint.has_chat_template:
        return f"{path}: has no chat template"
    return None


def _model(row: ModelRow) -> Model:
    return Model(
        name=row.name,
        path=row.path,
        context_tokens=row.context_tokens,
        max_output_tokens=row.max_output_tokens,
        size_rank=row.size_rank,
        quality=row.quality,
        task=Task(row.task),
        created_s=row.created_us // 1_000_000,
        image_tokens=row.image_tokens,
    )


def _pool(row: PoolRow) -> Pool:
    return Pool(
        name=row.name,
        model=row.model,
        variant=row.variant,
        capacity_class=CapacityClass(row.capacity_class),
        max_replicas=row.max_replicas,
        max_ongoing=row.max_ongoing,
        cost_nanousd_per_s=row.cost_nanousd_per_s,
        cost_input_nanousd_per_mtok=row.cost_input_nanousd_per_mtok,
        cost_output_nanousd_per_mtok=row.cost_output_nanousd_per_mtok,
        cold_start_s=row.cold_start_s,
        base_url=row.base_url,
        api_key_env=row.api_key_env,
    )
