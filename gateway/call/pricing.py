"""Which of its models a call may be sold, and at what prices. Pure."""

from collections.abc import Mapping, Sequence

from billing.prices.tariff import Component, Prices, Tariff, kind_of
from gateway.call.open_call import Quote
from gateway.errors import dearer_than_allowed, model_not_priced, unit_not_priced
from routing.policy.action import PriceBound
from routing.types import Call


def priced(
    call: Call, models: Sequence[str], tariff: Tariff | None, most: PriceBound
) -> tuple[Call, Quote]:
    """The call on those of `models` that have a price, up to `most`. Raises ApiError 400 where none
    has, or the model that it names has not."""
    prices = tariff.prices if tariff else {}
    named = call.model_requested
    tier = call.tier
    sold = {m: prices[m, tier, False] for m in models if (m, tier, False) in prices}
    if tariff is None or not sold or (named in models and named not in sold):
        raise model_not_priced(named, tier)
    if call.unit:
        sold = {m: each for m, each in sold.items() if _sells(each, call.unit)}
    if not sold or (named in models and named not in sold):
        raise unit_not_priced(named, call.unit)
    sold = {model: each for model, each in sold.items() if _is_within(each, most)}
    if not sold or (named in models and named not in sold):
        raise dearer_than_allowed(named)
    if len(sold) < len(call.models):
        call = call._replace(models=tuple(sold))
    if call.unit:
        call = _by_units(call, sold)
    return call, Quote(tariff.version_id, sold)


def _sells(prices: Prices, unit: str) -> bool:
    """A model that is sold by such units has a price for these, and so has one that is sold by its
    tokens alone."""
    kinds = {kind_of(each) for each, _ in prices.units}
    return kind_of(unit) not in kinds or prices.unit_price(unit) is not None


def _by_units(call: Call, sold: Mapping[str, Prices]) -> Call:
    """Units are counted where they have a price."""
    units = {
        model: call.units[model]
        for model, prices in sold.items()
        if prices.unit_price(call.unit) is not None
    }
    if call.unit == Component.SECOND:
        uncounted = {model: 0 for model in units if _is_without_tokens(sold[model])}
        call = call._replace(prompt_tokens={**call.prompt_tokens} | uncounted)
    return call._replace(units=units)


def _is_without_tokens(prices: Prices) -> bool:
    """Seconds are all that such a model is sold by: what tokens a file might have is a guess, which
    no limit of tokens should bind."""
    return not any(prices.of_prompt) and not any(prices.of_completion)


def _is_within(prices: Prices, most: PriceBound) -> bool:
    """Whether a caller who pays at most this for a million tokens pays these prices."""
    pairs = (
        (prices.input, most.input_nanousd_per_mtok),
        (prices.output, most.output_nanousd_per_mtok),
    )
    return all(bound is None or price <= bound for price, bound in pairs)
