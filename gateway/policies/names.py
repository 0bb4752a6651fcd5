"""Names in a document that the catalogue does not have.

Reads plain values: a document whose shape is wrong elsewhere has these mistakes named as well.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from billing.prices.book import PriceBook
from gateway.policies.source import DocumentText, Path, as_list, as_mapping, nearest
from gateway.settings import Settings
from routing.hardware.catalogue import Precision
from routing.policy.action import TargetKind
from routing.policy.conditions import Mistake
from routing.policy.narrow import target
from routing.types import Pool


@dataclass(frozen=True, slots=True)
class CatalogueNames:
    """What the catalogue has. None: it is not known, and names are not checked."""

    pools: frozenset[str] | None = None
    providers: frozenset[str] | None = None
    models: frozenset[str] | None = None
    quantizations: frozenset[str] | None = None
    """Precisions, and what pools without a declared variant call theirs."""
    unpriced: frozenset[str] = field(default_factory=frozenset)
    """Pools whose model has no price: a call that ends there could not be charged."""
    unpriced_models: frozenset[str] = field(default_factory=frozenset)
    unpriced_providers: frozenset[str] = field(default_factory=frozenset)
    """Providers all of whose pools are such."""


NOT_KNOWN: Final = CatalogueNames()


def names_of(
    pools: Sequence[Pool], models: Collection[str], prices: PriceBook, now_us: int
) -> CatalogueNames:
    """A model has a price where a version that has not ended says one."""
    versions = [
        v for v in prices.versions if v.effective_to_us is None or v.effective_to_us > now_us
    ]
    priced = {rate.model for version in versions for rate in version.rates}
    named = [_Named(pool.name, pool.model, pool.provider, pool.quantization) for pool in pools]
    return _names(named, models, priced)


def names_in(settings: Settings) -> CatalogueNames:
    """Where no catalogue is asked."""
    declared = {(each.model, each.name) for each in settings.variants}
    named = [
        _Named(
            pool.name,
            pool.model,
            pool.provider,
            None if (pool.model, pool.variant) in declared else pool.variant,
        )
        for pool in settings.pools
    ]
    models = [model.name for model in settings.models]
    return _names(named, models, {price.model for price in settings.prices})


class _Named(NamedTuple):
    pool: str
    model: str
    provider: str | None
    weights: str | None


def _names(
    named: Sequence[_Named], models: Collection[str], priced: Collection[str]
) -> CatalogueNames:
    providers = {each.provider for each in named if each.provider is not None}
    priced_providers = {each.provider for each in named if each.model in priced}
    weights = [each.weights for each in named if each.weights is not None]
    return CatalogueNames(
        pools=frozenset([each.pool for each in named]),
        providers=frozenset(providers),
        models=frozenset(models),
        quantizations=frozenset([*Precision, *weights]),
        unpriced=frozenset([each.pool for each in named if each.model not in priced]),
        unpriced_models=frozenset(models).difference(priced),
        unpriced_providers=frozenset(providers - priced_providers),
    )


def wrong_names(source: DocumentText, known: CatalogueNames) -> Iterator[Mistake]:
    for path, route in routes(source.value):
        for word in ("only", "order", "ignore"):
            for number, text in enumerate(as_list(route.get(word))):
                at: Path = (*path, word, number)
                if isinstance(text, str) and (message := _wrong_target(text, word, known)):
                    yield source.at(at, message)
        for at, model in _fallbacks(route.get("fallbacks"), (*path, "fallbacks")):
            if known.models is not None and model not in known.models:
                yield source.at(at, f"unknown model '{model}'{nearest(model, known.models)}")
            elif model in known.unpriced_models:
                yield source.at(at, f"the model '{model}' has no price")
        for number, weights in enumerate(as_list(route.get("quantizations"))):
            names = known.quantizations
            if names is not None and isinstance(weights, str) and weights not in names:
                message = f"no weights are named '{weights}'{nearest(weights, names)}"
                yield source.at((*path, "quantizations", number), message)


def _wrong_target(text: str, word: str, known: CatalogueNames) -> str | None:
    try:
        kind, name = target(text)
    except ValueError:
        return None  # a mistake of its shape
    is_pool = kind is TargetKind.POOL
    names = known.pools if is_pool else known.providers
    if names is not None and name not in names:
        return f"unknown {kind.value} '{name}'{nearest(name, names)}"
    if word == "ignore":
        return None
    if is_pool and name in known.unpriced:
        return f"the model of pool '{name}' has no price"
    if not is_pool and name in known.unpriced_providers:
        return f"no model of provider '{name}' has a price"
    return None


def routes(document: Any) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Every route that is a mapping, with its place."""
    values = as_mapping(document)
    places: list[tuple[Path, Any]] = [
        *((("rules", number), rule) for number, rule in enumerate(as_list(values.get("rules")))),
        (("default",), values.get("default")),
    ]
    for path, rule in places:
        words = as_mapping(rule)
        yield (*path, "route"), as_mapping(words.get("route"))
        for other in ("canary", "shadow"):
            route = as_mapping(words.get(other)).get("route")
            yield (*path, other, "route"), as_mapping(route)


def _fallbacks(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    lists: list[tuple[Path, Any]] = [(path, value)]
    lists += [((*path, cause), models) for cause, models in as_mapping(value).items()]
    for at, models in lists:
        for number, model in enumerate(as_list(models)):
            if isinstance(model, str):
                yield (*at, number), model
