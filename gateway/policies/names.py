"""Names in a document that the catalogue does not have.

Reads plain values: a document whose shape is wrong elsewhere has these mistakes named as well.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from billing.prices.book import PriceBook
from gateway.policies.source import DocumentText, Path, nearest
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
    unpriced: frozenset[str] = field(default_factory=frozenset)
    """Pools whose model has no price: a call that ends there could not be charged."""
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
    providers = {pool.provider for pool in pools if pool.provider is not None}
    priced_providers = {pool.provider for pool in pools if pool.model in priced}
    return CatalogueNames(
        pools=frozenset([pool.name for pool in pools]),
        providers=frozenset(providers),
        models=frozenset(models),
        unpriced=frozenset([pool.name for pool in pools if pool.model not in priced]),
        unpriced_providers=frozenset(providers - priced_providers),
    )


def wrong_names(source: DocumentText, known: CatalogueNames) -> Iterator[Mistake]:
    for path, route in _routes(source.value):
        for word in ("only", "order", "ignore"):
            for number, text in enumerate(_list(route.get(word))):
                at: Path = (*path, word, number)
                if isinstance(text, str) and (message := _wrong_target(text, word, known)):
                    yield source.at(at, message)
        for at, model in _fallbacks(route.get("fallbacks"), (*path, "fallbacks")):
            if known.models is not None and model not in known.models:
                yield source.at(at, f"unknown model '{model}'{nearest(model, known.models)}")


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


def _routes(document: Any) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Every route that is a mapping, with its place."""
    values = _mapping(document)
    places: list[tuple[Path, Any]] = [
        *((("rules", number), rule) for number, rule in enumerate(_list(values.get("rules")))),
        (("default",), values.get("default")),
    ]
    for path, rule in places:
        words = _mapping(rule)
        yield (*path, "route"), _mapping(words.get("route"))
        for other in ("canary", "shadow"):
            route = _mapping(words.get(other)).get("route")
            yield (*path, other, "route"), _mapping(route)


def _fallbacks(given: Any, path: Path) -> Iterator[tuple[Path, str]]:
    lists: list[tuple[Path, Any]] = [(path, given)]
    lists += [((*path, cause), models) for cause, models in _mapping(given).items()]
    for at, models in lists:
        for number, model in enumerate(_list(models)):
            if isinstance(model, str):
                yield (*at, number), model


def _mapping(given: Any) -> Mapping[str, Any]:
    return given if isinstance(given, dict) else {}


def _list(given: Any) -> list[Any]:
    return given if isinstance(given, list) else []
