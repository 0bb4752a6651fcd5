"""What there is to serve: models, variants, pools, prices, kept in memory with bounded staleness.

The truth is SQL. Whoever notices a new revision publishes the catalog to Redis, where the
controller reads it; a wiped Redis is published to again. Prices come from the ledger's
publication, and from SQL beside each new revision, so that no model is served before its price is
known. Guards the rule that no SQL is on the path of a call.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import msgspec
from redis.asyncio import Redis
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from billing.prices.book import PriceBook, read_published
from gateway.catalog.fit import VariantKey, variant_of
from gateway.catalog.hardware import parts_with
from gateway.catalog.pool import PoolPrice, has_own_price
from gateway.catalog.tables import ModelRow, PoolRow, VariantRow
from gateway.catalog.tokenizers import ByteBound, Checkpoints, CheckpointTokens, TokenCounter
from gateway.errors import bad_request, model_not_found
from gateway.providers.key import ProviderKey, in_region, keys_of
from gateway.providers.price_list import ListedRate, PriceList, dated_costs, rates_at
from gateway.providers.tables import ProviderPriceListRow
from gateway.tenants.revision import RevisionWatch
from gateway.tenants.store import CatalogRows, TenantStore
from routing.dated_prices import DatedCost, cost_at, next_start_us
from routing.economics.roofline import Roofline
from routing.economics.targets import line_of
from routing.hardware.catalogue import Hardware, shipped
from routing.types import (
    AUTO_MODEL,
    SIMULATED,
    CapacityClass,
    Clock,
    Continues,
    Model,
    Offer,
    Pool,
    Task,
)
from routing.variants import Variant

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
    hardware: Mapping[str, Hardware] = field(default_factory=shipped)
    counters: Mapping[str, TokenCounter] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    """Why the folder of a model cannot be read: such a model is left out, and looked at again."""
    extra_fields: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By model, and of all together by `auto`, the fields that some pool of theirs takes beside
    those that every one does."""

    params_b: Mapping[str, float] = field(default_factory=dict)
    """Billions of parameters by model, of its largest variant whose shape is known."""
    simulated: frozenset[str] = frozenset()
    """Models whose pools are simulated."""
    stale_us: int | None = None
    """When the next cost of a pool begins."""
    provider_keys: Mapping[str, tuple[ProviderKey, ...]] = field(default_factory=dict)
    """Of each account, by the name of its provider."""

    listed: Mapping[str, tuple[ListedRate, ...]] = field(default_factory=dict)
    """By pool, what its provider charges for its model now, where the pool says no price."""

    def keys_of(self, pool: Pool) -> tuple[ProviderKey, ...]:
        """Those that its account has for a pool. None: what the pool itself says counts."""
        keys = self.provider_keys.get(pool.provider, ()) if pool.provider else ()
        return in_region(keys, pool.region) if keys and pool.is_external else ()

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
    """Keeps `catalog` and `prices` current: what `watch` sees of a new revision is read here.
    `load_prices` reads the price book from SQL, and may block."""

    def __init__(
        self,
        store: TenantStore,
        redis: Redis,
        checkpoints: Checkpoints,
        *,
        watch: RevisionWatch,
        load_prices: Callable[[], PriceBook],
        poll_s: float,
        clock: Clock,
    ) -> None:
        self._store = store
        self._load_prices = load_prices
        self._redis = redis
        self._watch = watch
        self._poll_s = poll_s
        self._clock = clock
        self._prices_raw = b""
        self._checkpoints = checkpoints
        self.catalog = Catalog()
        self.prices = PriceBook(())

    def tokens_of(self, model: str) -> TokenCounter:
        """A bound where the model is not here any more."""
        return self.catalog.counters.get(model, ByteBound())

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
        due_us = self.catalog.stale_us
        is_due = due_us is not None and due_us <= self._now_us()
        if revision == self.catalog.revision and not self.catalog.unreadable and not is_due:
            return
        catalog = await asyncio.to_thread(self._load)
        in_sql = await asyncio.to_thread(self._load_prices)
        if in_sql.revision > self.prices.revision:
            self.prices = in_sql
        if catalog.unreadable != self.catalog.unreadable:
            log.error("catalog: without %s", catalog.unreadable or "nothing any more")
        self.catalog = catalog

    def _load(self) -> Catalog:
        revision, models, variants, pools, hardware, providers, approved = self._store.catalog()
        counters, unreadable = self._checkpoints.counters({row.name: row.path for row in models})
        for row in models:
            if row.path is None:
                counters[row.name] = ByteBound(row.image_tokens)
        models_by_name = {row.name: _model(row) for row in models if row.name in counters}
        declared = _declared(variants, models_by_name)
        now_us, rows = self._now_us(), [row for row in pools if row.model in models_by_name]
        lists = _price_lists(approved)
        of_pools = {row.name: listed_for(row, lists) for row in rows}
        dated = {
            row.name: dated_costs(of_pools[row.name], row.upstream_model or "") or _dated_costs(row)
            for row in rows
        }
        parts = parts_with(hardware)
        readable = tuple(
            _pool(row, declared, parts, cost_at(dated[row.name], now_us)) for row in rows
        )
        starts_us = [next_start_us(costs, now_us) for costs in dated.values()]
        return Catalog(
            revision=revision,
            models=models_by_name,
            pools=readable,
            hardware=parts,
            counters=counters,
            unreadable=unreadable,
            extra_fields=_extra_fields(readable),
            params_b=_params_b(readable),
            simulated=frozenset(pool.model for pool in readable if pool.is_simulated),
            listed={
                row.name: rates_at(of_pools[row.name], row.upstream_model or "", now_us)
                for row in rows
                if of_pools[row.name]
            },
            provider_keys={row.name: keys_of(row.keys) for row in providers},
            stale_us=min((each for each in starts_us if each is not None), default=None),
        )

    def _now_us(self) -> int:
        return round(self._clock() * 1e6)

    async def _publish_if_older(self) -> None:
        published = await self._redis.get(REVISION_KEY)
        if published is not None and int(published) >= self.catalog.revision:
            return
        rows = await asyncio.to_thread(self._store.catalog)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.set(CATALOG_KEY, _document(rows))
            pipe.set(REVISION_KEY, rows.revision)
            await pipe.execute()

    async def _read_prices(self) -> None:
        raw: bytes | None = await self._redis.get(PRICES_KEY)  # type: ignore[assignment]
        if raw is None or raw == self._prices_raw:
            return
        self._prices_raw = raw
        try:
            published = read_published(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as unreadable:
            log.error("catalog: the published prices cannot be read: %s", unreadable)
            return
        if published.revision >= self.prices.revision:  # versions are only ever added
            self.prices = published


def _document(rows: CatalogRows) -> bytes:
    return msgspec.json.encode(
        {
            "revision": rows.revision,
            "models": [row.model_dump() for row in rows.models],
            "variants": [row.model_dump() for row in rows.variants],
            "pools": [row.model_dump() for row in rows.pools],
            "rooflines": _rooflines(rows),
        }
    )


def _rooflines(rows: CatalogRows) -> Mapping[str, Roofline]:
    """What simulated pools take their time from, by pool: workers know no hardware."""
    models = {row.name: _model(row) for row in rows.models}
    declared, parts = _declared(rows.variants, models), parts_with(rows.hardware)
    simulated = [row for row in rows.pools if row.engine == SIMULATED]
    lines = {row.name: line_of(_pool(row, declared, parts, None)) for row in simulated}
    return {name: line for name, line in lines.items() if line is not None}


def _declared(
    variants: Sequence[VariantRow], models: Mapping[str, Model]
) -> dict[VariantKey, Variant]:
    return {
        (row.model, row.name): variant_of(row, models[row.model].context_tokens)
        for row in variants
        if row.model in models
    }


def _params_b(pools: Sequence[Pool]) -> Mapping[str, float]:
    most: dict[str, float] = {}
    for pool in pools:
        shape = pool.declared.shape if pool.declared else None
        if shape is not None:
            most[pool.model] = max(most.get(pool.model, 0.0), shape.params / 1e9)
    return most


def _extra_fields(pools: Sequence[Pool]) -> Mapping[str, frozenset[str]]:
    by_model: dict[str, frozenset[str]] = {}
    for pool in pools:
        for name in (pool.model, AUTO_MODEL) if pool.extra_fields else ():
            by_model[name] = by_model.get(name, frozenset()).union(pool.extra_fields)
    return by_model


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
    return Model(**_known(Model, row), created_s=row.created_us // 1_000_000)


def _price_lists(rows: Sequence[ProviderPriceListRow]) -> Mapping[str, Sequence[PriceList]]:
    by_provider: dict[str, list[PriceList]] = {}
    for row in rows:
        by_provider.setdefault(row.provider, []).append(row.price_list)
    return by_provider


def listed_for(row: PoolRow, lists: Mapping[str, Sequence[PriceList]]) -> Sequence[PriceList]:
    """The approved lists of a pool's provider. A price of the pool's own stands above them."""
    if row.base_url is None or row.provider is None or has_own_price(row):
        return ()
    return lists.get(row.provider, ())


def _dated_costs(row: PoolRow) -> list[DatedCost]:
    return [PoolPrice.model_validate(price).value for price in row.prices]


def _pool(
    row: PoolRow,
    declared: Mapping[VariantKey, Variant],
    parts: Mapping[str, Hardware],
    cost: DatedCost | None,
) -> Pool:
    """`cost` is the one with a date that holds now, if there is one."""
    own = {
        "declared": declared.get((row.model, row.variant)),
        "part": None if row.hardware is None else parts.get(row.hardware),
        "capacity_class": CapacityClass(row.capacity_class),
        "offer": Offer(row.offer),
        "continues": Continues(row.continues),
        "extra_fields": tuple(row.extra_fields),
    }
    costs = {} if cost is None else {k: v for k, v in cost._asdict().items() if v is not None}
    costs.pop("starts_us", None)
    return Pool(**_known(Pool, row) | own | costs)


def _known(kind: type[Model | Pool], row: ModelRow | PoolRow) -> dict[str, Any]:
    """The columns that routing knows by the same name."""
    return {f.name: getattr(row, f.name) for f in fields(kind) if hasattr(row, f.name)}
