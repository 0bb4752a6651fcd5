"""What a version of the price book may say, and how two versions differ. Pure.

Guards what holds rely on: a longer prompt never costs less a token, so that a bound for a prompt
bounds every shorter one, and a GPU-millisecond has a most that can be held.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from billing.pricebook import Component, Discount, PriceRate, RateKey
from billing.settings import NANOUSD_PER_USD, UNITS_PER_PRICE, PriceSettings
from billing.tariff import BASIS_POINTS, OF_TOKENS

TOKEN_PRICE_MAX = 10**15
"""Nano-USD per million: one USD a token. What a call comes to then fits the counters of Redis."""
CALL_PRICE_MAX = 10**18
"""The same of what is counted by the call: a thousand USD."""
GPU_MS_MAX = 86_400_000
PROMPT_MAX = 2**31 - 1
MS_PER_S = 1000
DISCOUNT = "discount"
"""What differs where it is no component."""


class PriceError(Exception):
    """A version that cannot be made, changed or put into force, and why."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One price that two versions do not share; None where a version does not have it.

    `component` is `discount` for one in basis points, of `model` ("" for every other model).
    """

    model: str
    tier: str
    batch: bool
    component: str
    prompt_from: int
    before: int | None
    after: int | None
    units_max_before: int | None = None
    units_max_after: int | None = None


def check_terms(
    rates: Sequence[PriceRate], discounts: Sequence[Discount], *, of_one_org: bool
) -> None:
    """Raises PriceError if the rates contradict themselves or leave a gap."""
    if not of_one_org and not rates:
        raise PriceError("a version without rates would leave every model unpriced")
    if not of_one_org and discounts:
        raise PriceError("only an organization has discounts: they are off everybody's prices")
    if any(count > 1 for count in Counter(map(key_of, rates)).values()):
        raise PriceError("a component is priced twice")
    if any(count > 1 for count in Counter(off.model for off in discounts).values()):
        raise PriceError("a model is discounted twice")
    if any(not 0 <= off.basis_points <= BASIS_POINTS for off in discounts):
        raise PriceError(f"a discount is 0 to {BASIS_POINTS} basis points")
    for rate in rates:
        _check_rate(rate)
    for group, found in by_group(rates).items():
        _check_group(group, found)


def differences(
    before: tuple[Sequence[PriceRate], Sequence[Discount]],
    after: tuple[Sequence[PriceRate], Sequence[Discount]],
) -> list[Difference]:
    """Every price that is not the same in both, in the order of what is priced."""
    old, new = ({key_of(rate): rate for rate in rates} for rates, _ in (before, after))
    found = []
    for key in sorted(old.keys() | new.keys()):
        one, other = old.get(key), new.get(key)
        if one != other:
            model, tier, batch, component, prompt_from = key
            found.append(
                Difference(
                    model,
                    tier,
                    batch,
                    component,
                    prompt_from,
                    one.nanousd_per_mtok if one else None,
                    other.nanousd_per_mtok if other else None,
                    one.units_max if one else None,
                    other.units_max if other else None,
                )
            )
    olds, news = ({off.model: off.basis_points for off in offs} for _, offs in (before, after))
    return found + [
        Difference(model, "", False, DISCOUNT, 0, olds.get(model), news.get(model))
        for model in sorted(olds.keys() | news.keys())
        if olds.get(model) != news.get(model)
    ]


def rates_of(price: PriceSettings) -> list[PriceRate]:
    """USD as integers; exact, because a price has at most nine decimals."""
    usd = {
        Component.INPUT: price.input_usd_per_mtok,
        Component.CACHED_INPUT: price.cached_input_usd_per_mtok,
        Component.CACHE_WRITE: price.cache_write_usd_per_mtok,
        Component.OUTPUT: price.output_usd_per_mtok,
        Component.REASONING: price.reasoning_usd_per_mtok,
        Component.REQUEST: price.request_usd * UNITS_PER_PRICE if price.request_usd else None,
        Component.MINIMUM: price.minimum_usd * UNITS_PER_PRICE if price.minimum_usd else None,
        Component.GPU_MS: price.gpu_usd_per_s * (UNITS_PER_PRICE // MS_PER_S)
        if price.gpu_usd_per_s
        else None,
    }
    return [
        PriceRate(
            model=price.model,
            tier=price.tier,
            batch=price.batch,
            component=component,
            prompt_from=price.prompt_from_tokens,
            nanousd_per_mtok=int(amount * NANOUSD_PER_USD),
            units_max=price.gpu_s_max * MS_PER_S if component is Component.GPU_MS else None,
        )
        for component, amount in usd.items()
        if amount is not None
    ]


def by_group(rates: Iterable[PriceRate]) -> dict[RateKey, list[PriceRate]]:
    found: dict[RateKey, list[PriceRate]] = {}
    for rate in rates:
        found.setdefault(group_of(rate), []).append(rate)
    return found


def group_of(rate: PriceRate) -> RateKey:
    """What is priced as a whole."""
    return rate.model, rate.tier, rate.batch


def key_of(rate: PriceRate) -> tuple[str, str, bool, str, int]:
    return *group_of(rate), rate.component.value, rate.prompt_from


def _check_rate(rate: PriceRate) -> None:
    if rate.nanousd_per_mtok < 0:
        raise PriceError("a price is negative")
    by_tokens = rate.component in OF_TOKENS
    if rate.nanousd_per_mtok > (TOKEN_PRICE_MAX if by_tokens else CALL_PRICE_MAX):
        raise PriceError(f"{_named(rate)} costs more than any call may")
    if not 0 <= rate.prompt_from <= PROMPT_MAX:
        raise PriceError(f"{_named(rate)} begins at no number of prompt tokens")
    if rate.prompt_from and not by_tokens:
        raise PriceError(f"{_named(rate)} does not depend on the length of the prompt")
    if rate.component is not Component.GPU_MS:
        if rate.units_max is not None:
            raise PriceError(f"{_named(rate)} has no most: only GPU-milliseconds have")
    elif rate.units_max is None or not 1 <= rate.units_max <= GPU_MS_MAX:
        raise PriceError(f"{_named(rate)} needs a most of 1 to {GPU_MS_MAX}, which is held")


def _check_group(group: RateKey, rates: Sequence[PriceRate]) -> None:
    named = f"{group[0]}/{group[1]}"
    base = {rate.component for rate in rates if not rate.prompt_from}
    if missing := {Component.INPUT, Component.OUTPUT} - base:
        raise PriceError(f"{named} has no price for {', '.join(sorted(missing))}")
    last: dict[Component, int] = {}
    for rate in sorted(rates, key=lambda rate: rate.prompt_from):
        if rate.component not in base:
            raise PriceError(f"{_named(rate)} has a price for long prompts only")
        if rate.nanousd_per_mtok < last.get(rate.component, 0):
            raise PriceError(f"{_named(rate)} costs less for longer prompts")
        last[rate.component] = rate.nanousd_per_mtok


def _named(rate: PriceRate) -> str:
    return f"{rate.model}/{rate.tier} {rate.component}"
