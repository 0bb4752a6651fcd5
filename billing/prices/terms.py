"""The terms that a version of the price book may have, and how two versions differ. Pure.

Guards what holds rely on. A longer prompt never costs less a token, so a bound for a prompt bounds
every shorter one. A GPU-millisecond has a largest amount that can be held.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from billing.prices.book import Component, Discount, PriceRate, RateKey
from billing.prices.rating import UNITS_PER_PRICE
from billing.prices.tariff import BASIS_POINTS, OF_TOKENS
from billing.settings import PriceSettings

TOKEN_PRICE_MAX = 10**15
"""Nano-USD per million: one USD a token. What a call comes to then fits the counters of Redis."""
CALL_PRICE_MAX = 10**18
"""The same of what is counted by the call: a thousand USD."""
SMALL_UNITS = (Component.SECOND, Component.CHARACTER)
"""A call has many of them, as of tokens."""
GPU_MS_MAX = 86_400_000
PROMPT_MAX = 2**31 - 1
MS_PER_S = 1000
DISCOUNT = "discount"
"""What differs where it is no component."""


class PriceError(Exception):
    """A version cannot be made, changed or put into force. The message has the reason."""


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
    for group, members in by_group(rates).items():
        _check_group(group, members)


def differences(
    before: tuple[Sequence[PriceRate], Sequence[Discount]],
    after: tuple[Sequence[PriceRate], Sequence[Discount]],
) -> list[Difference]:
    """Every price that differs between two versions, in the order of models and components."""
    old, new = ({key_of(rate): rate for rate in rates} for rates, _ in (before, after))
    changes = []
    for key in sorted(old.keys() | new.keys()):
        one, other = old.get(key), new.get(key)
        if one != other:
            model, tier, batch, component, prompt_from = key
            changes.append(
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
    return changes + [
        Difference(model, "", False, DISCOUNT, 0, olds.get(model), news.get(model))
        for model in sorted(olds.keys() | news.keys())
        if olds.get(model) != news.get(model)
    ]


def rates_of(price: PriceSettings) -> list[PriceRate]:
    """The rates that a declared price stands for."""
    per_gpu_ms = UNITS_PER_PRICE // MS_PER_S
    amounts: dict[str, int | None] = {
        **{name: getattr(price, f"{name}_nanousd_per_mtok") for name in OF_TOKENS},
        Component.REQUEST: price.request_nanousd * UNITS_PER_PRICE or None,
        Component.MINIMUM: price.minimum_nanousd * UNITS_PER_PRICE or None,
        Component.GPU_MS: price.gpu_nanousd_per_s * per_gpu_ms or None,
        **{unit: amount * UNITS_PER_PRICE for unit, amount in price.of_units.items()},
    }
    return [
        PriceRate(
            model=price.model,
            tier=price.tier,
            batch=price.batch,
            component=component,
            prompt_from=price.prompt_from_tokens,
            nanousd_per_mtok=amount,
            units_max=price.gpu_s_max * MS_PER_S if component == Component.GPU_MS else None,
        )
        for component, amount in amounts.items()
        if amount is not None
    ]


def by_group(rates: Iterable[PriceRate]) -> dict[RateKey, list[PriceRate]]:
    groups: dict[RateKey, list[PriceRate]] = {}
    for rate in rates:
        groups.setdefault(group_of(rate), []).append(rate)
    return groups


def group_of(rate: PriceRate) -> RateKey:
    """The key of rates that are priced together."""
    return rate.model, rate.tier, rate.batch


def key_of(rate: PriceRate) -> tuple[str, str, bool, str, int]:
    return *group_of(rate), rate.component, rate.prompt_from


def _check_rate(rate: PriceRate) -> None:
    if rate.nanousd_per_mtok < 0:
        raise PriceError("a price is negative")
    by_tokens = rate.component in OF_TOKENS
    is_small = by_tokens or rate.component in SMALL_UNITS
    if rate.nanousd_per_mtok > (TOKEN_PRICE_MAX if is_small else CALL_PRICE_MAX):
        raise PriceError(f"{_named(rate)} costs more than any call may")
    if not 0 <= rate.prompt_from <= PROMPT_MAX:
        raise PriceError(f"{_named(rate)} begins at no number of prompt tokens")
    if rate.prompt_from and not by_tokens:
        raise PriceError(f"{_named(rate)} does not depend on the length of the prompt")
    if rate.component != Component.GPU_MS:
        if rate.units_max is not None:
            raise PriceError(f"{_named(rate)} has no most: only GPU-milliseconds have")
    elif rate.units_max is None or not 1 <= rate.units_max <= GPU_MS_MAX:
        raise PriceError(f"{_named(rate)} needs a most of 1 to {GPU_MS_MAX}, which is held")


def _check_group(group: RateKey, rates: Sequence[PriceRate]) -> None:
    label = f"{group[0]}/{group[1]}"
    base = {rate.component for rate in rates if not rate.prompt_from}
    if missing := {Component.INPUT, Component.OUTPUT} - base:
        raise PriceError(f"{label} has no price for {', '.join(sorted(missing))}")
    last: dict[str, int] = {}
    for rate in sorted(rates, key=lambda rate: rate.prompt_from):
        if rate.component not in base:
            raise PriceError(f"{_named(rate)} has a price for long prompts only")
        if rate.nanousd_per_mtok < last.get(rate.component, 0):
            raise PriceError(f"{_named(rate)} costs less for longer prompts")
        last[rate.component] = rate.nanousd_per_mtok


def _named(rate: PriceRate) -> str:
    return f"{rate.model}/{rate.tier} {rate.component}"
