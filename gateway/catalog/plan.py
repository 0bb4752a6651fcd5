"""What applying a declaration would change: (declaration, what there is) -> Plan. Pure.

Guards the rules that hold between tables: a pool has a model, a variant fits its model
and the hardware of its pools, a model with pools has a price. What
the declaration does not name is left alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from billing.money import usd
from billing.prices.book import PriceRate
from billing.prices.versions import rates_of
from billing.written_usd import INSIDE, written_name
from gateway.catalog.declaration import Declaration, Mistake, ModelDeclaration
from gateway.catalog.fit import (
    VariantKey,
    mixed_misfits,
    pool_misfits,
    priced,
    variant_misfits,
    variant_of,
)
from gateway.catalog.hardware import HardwareSettings, parts_with
from gateway.catalog.mix import mix_misfits
from gateway.catalog.pool import PoolFields, has_own_price
from gateway.catalog.tables import HardwareRow, ModelRow, PoolRow, VariantRow
from gateway.catalog.variant import ShapeFields, VariantSettings
from gateway.providers.price_list import unpriced
from gateway.settings import PoolSettings
from routing.hardware.catalogue import Hardware
from routing.types import Task
from workers.engines.names import EMBEDDING, SIMULATED
from workers.mix import Mix
from workers.nodes.node_type import NodeType

FROM_ADMIN = "admin"
INTERNAL_FIELDS = ("created_us", "source")
"""Fields whose difference is no change."""
Group = tuple[str, str, bool]
CatalogRow = HardwareRow | ModelRow | VariantRow | PoolRow


class Sign(StrEnum):
    ADDED = "added"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Change:
    """What happens to one part, model, variant, pool or price, for people to read."""

    kind: str
    name: str
    sign: Sign
    details: tuple[str, ...] = ()

    def __str__(self) -> str:
        mark = {Sign.ADDED: "+", Sign.CHANGED: "~", Sign.UNCHANGED: "="}[self.sign]
        words = ", ".join(self.details) or self.sign.value
        return f"{mark} {self.kind} {self.name}: {words}"


@dataclass(frozen=True, slots=True)
class Known:
    """What there is now: rows by name, disabled ones too, and the prices in force."""

    models: Mapping[str, ModelRow]
    pools: Mapping[str, PoolRow]
    rates: Sequence[PriceRate]
    variants: Mapping[VariantKey, VariantRow] = field(default_factory=dict)
    hardware: Mapping[str, HardwareRow] = field(default_factory=dict)
    nodes: Sequence[NodeType] = ()
    mixes: Sequence[Mix] = ()
    bought: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Models with a price that is approved and holds, of each account with a provider."""

    @property
    def enabled_models(self) -> dict[str, ModelRow]:
        return {name: row for name, row in self.models.items() if row.enabled}

    def parts_with(self, declared: Iterable[HardwareSettings]) -> Mapping[str, Hardware]:
        """What the hardware of a pool may name once these are there too."""
        own = [row for row in self.hardware.values() if row.enabled]
        return parts_with([*own, *declared])


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A declared model with all that its checkpoint says filled in."""

    declared: ModelDeclaration
    task: Task
    context_tokens: int
    max_output_tokens: int
    path: str | None = None
    origin: str | None = None
    checksum: str | None = None
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class ServedVariant:
    """A declared variant with what its checkpoint says, where it has one of its own."""

    declared: VariantSettings
    shape: ShapeFields | None
    path: str | None = None
    origin: str | None = None
    checksum: str | None = None

    @property
    def key(self) -> VariantKey:
        return self.declared.model, self.declared.name


@dataclass(frozen=True, slots=True)
class Plan:
    """Rows and prices to write, and every change in words."""

    hardware: tuple[HardwareRow, ...] = ()
    models: tuple[ModelRow, ...] = ()
    variants: tuple[VariantRow, ...] = ()
    pools: tuple[PoolRow, ...] = ()
    rates: tuple[PriceRate, ...] = ()
    changes: tuple[Change, ...] = field(default=())

    @property
    def names(self) -> list[str]:
        rows: list[CatalogRow] = [*self.hardware, *self.models, *self.variants, *self.pools]
        return [_name(row) for row in rows]

    @property
    def is_empty(self) -> bool:
        return all(change.sign is Sign.UNCHANGED for change in self.changes)


def contradictions(declaration: Declaration, known: Known) -> list[Mistake]:
    """What cannot be, in view of what there is already."""
    declared = {model.name: model for model in declaration.models.values()}
    mistakes = []
    for index, variant in declaration.variants.items():
        if variant.model in declared or declaration.may_name("models", variant.model):
            continue
        if variant.model not in known.enabled_models:
            words = f"no model is named {variant.model}"
            mistakes.append(Mistake(f"variants.{index}.model", words))
    for index, pool in declaration.pools.items():
        place = f"pools.{index}.model"
        if pool.model not in declared and declaration.may_name("models", pool.model):
            continue
        if pool.model not in declared and pool.model not in known.enabled_models:
            mistakes.append(Mistake(place, f"no model is named {pool.model}"))
        elif pool.base_url is None and _is_external(pool.model, declared, known):
            words = f"{pool.model} has no checkpoint, so only external pools can serve it"
            mistakes.append(Mistake(place, words))
    for index, price in declaration.prices.items():
        if price.model not in declared and declaration.may_name("models", price.model):
            continue
        if price.model not in declared and price.model not in known.models:
            words = f"no model is named {price.model}"
            mistakes.append(Mistake(f"prices.{index}.model", words))
    mistakes += _unbought(declaration, known)
    return mistakes + _abandoned(declaration, known) + _unpriced(declaration, known)


def task_contradictions(
    declaration: Declaration, models: Sequence[ServedModel], known: Known
) -> list[Mistake]:
    """Engines that do not do what their model is for; told once the task is known."""
    tasks = {row.name: row.task for row in known.models.values()}
    tasks |= {model.declared.name: model.task for model in models}
    return [
        Mistake(f"pools.{index}.engine", f"{pool.engine} does not {tasks[pool.model].verb}")
        for index, pool in declaration.pools.items()
        if pool.engine is not None
        and (pool.engine == EMBEDDING) != (tasks[pool.model] == Task.EMBED)
    ] + [
        Mistake(f"pools.{index}.adapter", f"{pool.adapter} does not {tasks[pool.model].verb}")
        for index, pool in declaration.pools.items()
        if pool.adapter is not None and tasks[pool.model].is_outside
    ]


def simulated_models(declaration: Declaration, known: Known) -> frozenset[str]:
    """Models all of whose pools will be simulated."""
    pools: dict[str, PoolRow | PoolSettings] = {
        name: row for name, row in known.pools.items() if row.enabled
    }
    pools |= {pool.name: pool for pool in declaration.pools.values()}
    real = {pool.model for pool in pools.values() if pool.engine != SIMULATED}
    return frozenset(pool.model for pool in pools.values()) - real


def fit_contradictions(
    declaration: Declaration,
    models: Sequence[ServedModel],
    variants: Sequence[ServedVariant],
    known: Known,
    now_us: int,
) -> list[Mistake]:
    """Variants that no model has room for, and pools whose hardware has none for their variant. A
    mistake stands at the row of the declaration that makes it one."""
    contexts = {row.name: row.context_tokens for row in known.models.values()}
    contexts |= {model.declared.name: model.context_tokens for model in models}
    rows = {key: row for key, row in known.variants.items() if row.enabled}
    rows |= {each.key: _variant_row(each) for each in variants}
    of_models = {model.name: f"models.{index}" for index, model in declaration.models.items()}
    places = {key: of_models[key[0]] for key in rows if key[0] in of_models}
    of_variants = {(v.model, v.name): f"variants.{n}" for n, v in declaration.variants.items()}
    places |= of_variants
    fitting = {key: variant_of(row, contexts[row.model]) for key, row in rows.items()}
    parts = known.parts_with(declaration.hardware.values())
    of_parts = {part.name: f"hardware.{index}" for index, part in declaration.hardware.items()}
    mistakes = [
        Mistake(f"{places[key]}.{misfit.key}", misfit.words)
        for key, row in rows.items()
        if key in places
        for misfit in variant_misfits(row, contexts[row.model], now_us)
    ]
    for index, pool in declaration.pools.items():
        for misfit in pool_misfits(pool, fitting, parts, known.nodes):
            mistakes.append(Mistake(f"pools.{index}.{misfit.key}", misfit.words))
    declared = {pool.name for pool in declaration.pools.values()}
    staying = [row for row in known.pools.values() if row.enabled and row.name not in declared]
    beside: list[PoolRow | PoolSettings] = [*staying]
    for index, pool in declaration.pools.items():
        for misfit in mixed_misfits(pool, beside):
            mistakes.append(Mistake(f"pools.{index}.{misfit.key}", misfit.words))
        beside.append(pool)
    by_name = {pool.name: pool for pool in beside}
    for index, pool in declaration.pools.items():
        for misfit in mix_misfits(pool.name, pool, known.mixes, by_name):
            mistakes.append(Mistake(f"pools.{index}.{misfit.key}", misfit.words))
    for row in staying:
        place = places.get((row.model, row.variant)) or of_parts.get(row.hardware or "")
        if place is not None:
            for misfit in pool_misfits(row, fitting, parts):
                mistakes.append(Mistake(place, f"pool {row.name}: {misfit.words}"))
    return mistakes


def plan(
    declaration: Declaration,
    models: Sequence[ServedModel],
    variants: Sequence[ServedVariant],
    known: Known,
    now_us: int,
) -> Plan:
    """Rows to write are those that differ; `changes` tells of the others too."""
    hardware_rows = [_hardware_row(part) for part in declaration.hardware.values()]
    model_rows = [
        _model_row(model, known.models.get(model.declared.name), now_us) for model in models
    ]
    variant_rows = [_variant_row(variant) for variant in variants]
    pool_rows = [_pool_row(priced(pool, known.nodes)) for pool in declaration.pools.values()]
    rates = [rate for price in declaration.prices.values() for rate in rates_of(price)]
    changes = [
        *(_row_change("hardware", row, known.hardware.get(row.name)) for row in hardware_rows),
        *(_row_change("model", row, known.models.get(row.name)) for row in model_rows),
        *(_row_change("variant", row, known.variants.get(_key(row))) for row in variant_rows),
        *(_row_change("pool", row, known.pools.get(row.name)) for row in pool_rows),
        *_price_changes(rates, known.rates),
    ]
    changed = {(c.kind, c.name) for c in changes if c.sign is not Sign.UNCHANGED}
    return Plan(
        hardware=tuple(row for row in hardware_rows if ("hardware", row.name) in changed),
        models=tuple(row for row in model_rows if ("model", row.name) in changed),
        variants=tuple(r for r in variant_rows if ("variant", _name(r)) in changed),
        pools=tuple(row for row in pool_rows if ("pool", row.name) in changed),
        rates=tuple(rates),
        changes=tuple(changes),
    )


def _is_external(name: str, declared: Mapping[str, ModelDeclaration], known: Known) -> bool:
    if name in declared:
        return declared[name].is_external
    return known.models[name].path is None


def _abandoned(declaration: Declaration, known: Known) -> list[Mistake]:
    """Own pools that are there and would have no checkpoint any more."""
    declared = {pool.name for pool in declaration.pools.values()}
    own = {
        row.model: row.name
        for row in known.pools.values()
        if row.enabled and row.base_url is None and row.name not in declared
    }
    return [
        Mistake(f"models.{index}.path", f"the pool {own[model.name]} runs here and needs one")
        for index, model in declaration.models.items()
        if model.is_external and model.name in own
    ]


def _unbought(declaration: Declaration, known: Known) -> list[Mistake]:
    """Pools of an account whose model nobody knows the price of."""
    return [
        Mistake(f"pools.{index}.upstream_model", words)
        for index, pool in declaration.pools.items()
        if (words := unbought(pool, known.bought))
    ]


def unbought(pool: PoolFields, bought: Mapping[str, frozenset[str]]) -> str | None:
    """Why an external pool is refused that neither has a price nor an account with one."""
    provider, model = pool.provider, pool.upstream_model
    if pool.base_url is None or provider is None or model is None or has_own_price(pool):
        return None
    if provider not in bought:
        return None
    return None if model in bought[provider] else unpriced(provider, model)


def _unpriced(declaration: Declaration, known: Known) -> list[Mistake]:
    """Unpriced is refused, never free: so a model is not put to work without a price."""
    declared = declaration.prices.values()
    priced = {price.model for price in declared} | {rate.model for rate in known.rates}
    places = {pool.model: f"pools.{index}.model" for index, pool in declaration.pools.items()}
    there = known.models.keys() | {model.name for model in declaration.models.values()}
    served = {row.model for row in known.pools.values() if row.enabled} | places.keys()
    for index, model in declaration.models.items():
        if model.name in served:
            places[model.name] = f"models.{index}"
    return [
        Mistake(place, f"{name} has a pool and no price: add it to [[prices]]")
        for name, place in places.items()
        if name in there and name not in priced and not declaration.may_name("prices", name)
    ]


def _hardware_row(part: HardwareSettings) -> HardwareRow:
    return HardwareRow(**part.model_dump(), enabled=True, source=FROM_ADMIN)


def _model_row(model: ServedModel, known: ModelRow | None, now_us: int) -> ModelRow:
    return ModelRow(
        **model.declared.model_dump(include={"name", "size_rank", "quality", "image_tokens"}),
        path=model.path,
        context_tokens=model.context_tokens,
        max_output_tokens=model.max_output_tokens,
        task=model.task,
        created_us=known.created_us if known else now_us,
        origin=model.origin,
        checksum=model.checksum,
        enabled=True,
        source=FROM_ADMIN,
    )


def _variant_row(variant: ServedVariant) -> VariantRow:
    shape = None if variant.shape is None else variant.shape.model_dump()
    fields = variant.declared.model_dump() | {"path": variant.path, "shape": shape}
    return VariantRow(
        **fields, origin=variant.origin, checksum=variant.checksum, enabled=True, source=FROM_ADMIN
    )


def _key(row: VariantRow) -> VariantKey:
    return row.model, row.name


def _name(row: CatalogRow) -> str:
    """A variant is called `MODEL/NAME`."""
    return f"{row.model}/{row.name}" if isinstance(row, VariantRow) else row.name


def _pool_row(pool: PoolSettings) -> PoolRow:
    return PoolRow(**pool.model_dump(), enabled=True, source=FROM_ADMIN)


def _row_change(kind: str, row: CatalogRow, known: CatalogRow | None) -> Change:
    new = _public_fields(row)
    if known is None:
        first = {key: value for key, value in new.items() if key in FIRST_FIELDS and value != []}
        words = [f"{key} {_text(value)}" for key, value in first.items()]
        return Change(kind, _name(row), Sign.ADDED, tuple(words))
    old = _public_fields(known)
    details = [
        f"{key} {_text(old[key])} -> {_text(value)}"
        for key, value in new.items()
        if value != old[key]
    ]
    return Change(kind, _name(row), Sign.CHANGED if details else Sign.UNCHANGED, tuple(details))


FIRST_FIELDS = (
    *("task", "context_tokens", "origin", "model", "capacity_class", "max_replicas"),
    *("quantization", "quality", "kind", "memory_gb"),
)
"""What is worth reading of something new."""


def _public_fields(row: CatalogRow) -> dict[str, Any]:
    """Money as it is written."""
    return {
        written_name(key): usd(value) if INSIDE in key and value is not None else value
        for key, value in row.model_dump().items()
        if key not in INTERNAL_FIELDS
    }


def _text(value: object) -> str:
    """Checksums and the folders named by them by their beginning, quality by its scores."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return " ".join(map(_part_text, value))
    text = "none" if value is None or value == [] else str(value)
    head, slash, tail = text.rpartition("/")
    return f"{head}{slash}{tail[:12]}" if len(tail) == 64 else text


def _part_text(part: Mapping[str, Any]) -> str:
    """A quality, an offer of hardware, or a price of a pool with its date."""
    if "use_case" in part:
        return f"{part['use_case']} {part['score']}"
    if "offer" in part:
        return f"{part['offer']} {part['usd_h']} to {part['usd_h_max'] or part['usd_h']} USD/h"
    costs = [
        f"{written_name(key)} {usd(part[key])}"
        for key in part
        if INSIDE in key and part[key] is not None
    ]
    return " ".join([f"from {part['starts_at']}", *costs])


def _price_changes(rates: Sequence[PriceRate], in_force: Sequence[PriceRate]) -> list[Change]:
    new, old = _by_group(rates), _by_group(in_force)
    changes = []
    for group, parts in new.items():
        model, tier, batch = group
        name = f"{model} {tier}{' batch' if batch else ''}"
        before = old.get(group)
        if before is None:
            words = tuple(f"{part} {_usd(amount)}" for part, amount in parts.items())
            changes.append(Change("price", name, Sign.ADDED, words))
            continue
        details = tuple(
            f"{part} {_usd(before.get(part))} -> {_usd(parts.get(part))}"
            for part in sorted(parts.keys() | before.keys())
            if parts.get(part) != before.get(part)
        )
        sign = Sign.CHANGED if details else Sign.UNCHANGED
        changes.append(Change("price", name, sign, details))
    return changes


def _by_group(rates: Sequence[PriceRate]) -> dict[Group, dict[str, int]]:
    groups: dict[Group, dict[str, int]] = {}
    for rate in rates:
        parts = groups.setdefault((rate.model, rate.tier, rate.batch), {})
        longer = f" from {rate.prompt_from} prompt tokens" if rate.prompt_from else ""
        parts[f"{rate.component}{longer}"] = rate.nanousd_per_mtok
    return groups


def _usd(nanousd: int | None) -> str:
    return "none" if nanousd is None else usd(nanousd)
