"""The `provider` object of a call, in OpenRouter's words: it narrows what the operator's rule
allows. `max_price` is what the tenant pays, never what a pool costs us."""

from collections.abc import Mapping
from typing import Any, Final

from billing.money import nanousd
from gateway.errors import bad_request
from gateway.wire.bodies.checks import boolean, invalid_type, number, string
from gateway.wire.bodies.rules import Rule, object_of, word_of
from gateway.wire.json_schema import BOOLEAN, STRING, array, between, either, objects
from routing.policy.action import LatencyPreference, PriceBound, Sort
from routing.policy.narrow import Preferences, target

TARGETS_MAX: Final = 100
MS_MAX: Final = 24 * 3600 * 1000
QUANTILES: Final = {f"p{n}_ttft_ms": n / 100 for n in (50, 90, 95, 99)}
USD_MAX: Final = 1_000_000.0


def _texts(name: str, value: object) -> None:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise invalid_type(name, "an array of strings", value)
    if not 1 <= len(value) <= TARGETS_MAX:
        raise bad_request(f"'{name}' takes 1 to {TARGETS_MAX} names.", name, "invalid_value")


def _targets(name: str, value: object) -> None:
    _texts(name, value)
    assert isinstance(value, list)
    for each in value:
        try:
            target(each)
        except ValueError as wrong:
            raise bad_request(f"'{name}': {wrong}.", name, "invalid_value") from wrong


def _usd(name: str, value: object) -> None:
    if isinstance(value, str):
        try:
            value = nanousd(value) / 1e9
        except ValueError as wrong:
            raise bad_request(f"'{name}': {wrong}.", name, "invalid_value") from wrong
    number(0, USD_MAX)(name, value)


def _sort(name: str, value: object) -> None:
    by = value["by"] if isinstance(value, dict) and set(value) == {"by"} else value
    string(name, by)
    _SORTS.check(name, by)


_SORTS = word_of(*[sort.value for sort in Sort])
_LATENCIES = {name: Rule(number(1, MS_MAX), between(1, MS_MAX)) for name in QUANTILES}
_PRICE = Rule(_usd, either(between(0, USD_MAX), STRING))
_TARGETS = Rule(_targets, array(STRING, minItems=1, maxItems=TARGETS_MAX))
_BOOLEAN = Rule(boolean, BOOLEAN)
PROVIDER: Final = object_of(
    {
        "only": _TARGETS,
        "order": _TARGETS,
        "ignore": _TARGETS,
        "sort": Rule(_sort, either(_SORTS.schema, objects({"by": _SORTS.schema}))),
        "max_price": object_of({"prompt": _PRICE, "completion": _PRICE}),
        "preferred_max_latency": object_of(_LATENCIES),
        "allow_fallbacks": _BOOLEAN,
        "quantizations": Rule(_texts, array(STRING, minItems=1, maxItems=TARGETS_MAX)),
        "data_collection": word_of("allow", "deny"),
    }
)


def preferences_of(
    provider: Mapping[str, Any] | None, *, no_fallbacks: bool = False
) -> Preferences | None:
    """Of an object that passed its check; None for one that says nothing. `no_fallbacks`: the call
    says `disable_fallbacks`, LiteLLM's word for `allow_fallbacks: false`."""
    fields = {name: value for name, value in (provider or {}).items() if value is not None}
    if no_fallbacks:
        fields["allow_fallbacks"] = False
    if not fields:
        return None
    sort, latency = fields.get("sort"), fields.get("preferred_max_latency") or {}
    quantiles = [
        (QUANTILES[name], ms / 1000) for name, ms in sorted(latency.items()) if ms is not None
    ]
    return Preferences(
        only=_set(fields.get("only")),
        order=tuple([target(each) for each in fields.get("order", ())]),
        ignore=_set(fields.get("ignore", ())) or frozenset(),
        sort=None if sort is None else Sort(sort["by"] if isinstance(sort, dict) else sort),
        preferred_max_latency=LatencyPreference(tuple(quantiles)) if quantiles else None,
        allow_fallbacks=fields.get("allow_fallbacks", True),
        quantizations=frozenset(fields["quantizations"]) if "quantizations" in fields else None,
        data_collection_allowed=fields.get("data_collection") != "deny",
    )


def price_max_of(provider: Mapping[str, Any] | None) -> PriceBound:
    """The most that the tenant pays for a million tokens."""
    prices = (provider or {}).get("max_price") or {}
    return PriceBound(_nanousd(prices.get("prompt")), _nanousd(prices.get("completion")))


def _nanousd(value: Any) -> int | None:
    if value is None:
        return None
    return nanousd(value) if isinstance(value, str) else round(value * 1e9)


def _set(names: Any) -> Any:
    return None if names is None else frozenset([target(each) for each in names])
