"""Rating: usage times prices, in integers.

Each component is rounded once, half to even, to a whole nano-dollar. A charge is the sum of its
components. So the same usage and the same price version give the same charge for ever. Knows no
clock, no storage and no currency but nano-USD.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter

import msgspec
from msgspec.structs import replace

from billing.prices.book import Component, PriceBook, Prices, Unpriced
from billing.prices.estimate import Rate
from billing.prices.rounding import divide_half_even
from billing.prices.tariff import OF_UNITS, WITH_INPUT, WITH_OUTPUT, kind_of
from billing.types import Usage

UNITS_PER_PRICE = 1_000_000


class Unrateable(Exception):
    """The call names a price that no version of the book has."""


class Charge(msgspec.Struct, frozen=True):
    """Nano-USD by component, and the version of the book that gave them. The part of the minimum is
    what the others lack to it."""

    version_id: str
    input_nanousd: int = 0
    cached_input_nanousd: int = 0
    output_nanousd: int = 0
    request_nanousd: int = 0
    cache_write_nanousd: int = 0
    reasoning_nanousd: int = 0
    gpu_ms_nanousd: int = 0
    minimum_nanousd: int = 0
    audio_input_nanousd: int = 0
    image_input_nanousd: int = 0
    audio_output_nanousd: int = 0
    image_output_nanousd: int = 0
    units_nanousd: int = 0

    @property
    def amount_nanousd(self) -> int:
        return sum(_parts(self))


CHARGE_PARTS = tuple(name for name in Charge.__struct_fields__ if name != "version_id")
_parts = attrgetter(*CHARGE_PARTS)


def rate(usage: Usage, prices: Prices) -> Charge:
    """The charge of usage. A call that generated nothing and read nothing costs nothing, fees
    included.

    The length of the whole prompt decides which prices hold, for every token of the call.
    """
    if usage.is_nothing:
        return Charge(prices.version_id)
    at = prices.at_prompt(usage.prompt)
    input_tokens, generated, gpu_ms, of_units = usage.input, usage.output, 0, 0
    own: dict[str, int] = {}
    if usage.has_others:
        input_tokens += _without_price(usage, at, WITH_INPUT)
        generated += _without_price(usage, at, WITH_OUTPUT)
        own = _own_parts(usage, at)
    if usage.gpu_ms:
        gpu_ms = amount_of(min(usage.gpu_ms, at.gpu_ms_max), at.gpu_ms)
    if usage.units:
        of_units = units_nanousd(usage.unit, usage.units, at)
    charge = Charge(
        version_id=at.version_id,
        input_nanousd=amount_of(input_tokens, at.input),
        cached_input_nanousd=amount_of(usage.cached_input, at.cached_input),
        output_nanousd=amount_of(generated, at.output),
        request_nanousd=amount_of(1, at.request),
        gpu_ms_nanousd=gpu_ms,
        units_nanousd=of_units,
    )
    if own:
        charge = replace(charge, **own)
    if not at.minimum:
        return charge
    lacking = amount_of(1, at.minimum) - charge.amount_nanousd
    return replace(charge, minimum_nanousd=lacking) if lacking > 0 else charge


def _without_price(usage: Usage, at: Prices, classes: Sequence[str]) -> int:
    return sum([getattr(usage, each) for each in classes if getattr(at, each) is None])


def _own_parts(usage: Usage, at: Prices) -> dict[str, int]:
    """Of tokens that have a price of their own."""
    return {
        f"{each}_nanousd": amount_of(getattr(usage, each), price)
        for each in (*WITH_INPUT, *WITH_OUTPUT)
        if (price := getattr(at, each)) is not None
    }


def units_nanousd(unit: str, units: int, prices: Prices) -> int:
    """The part of units of a kind. Without a price they cost nothing."""
    return amount_of(units, prices.unit_price(unit) or 0) if units else 0


def part_of(component: str) -> str:
    """The part of a charge that a component is in."""
    return "units_nanousd" if kind_of(component) in OF_UNITS else f"{component}_nanousd"


def dearest(
    prompt_tokens: int, output_tokens: int, prices: Prices, unit: str = "", units: int = 0
) -> Usage:
    """The usage that costs most of all usage with so many tokens and units."""
    at = prices.at_prompt(prompt_tokens)
    of_input = {"input": at.input, "cached_input": at.cached_input} | _own_prices(at, WITH_INPUT)
    generated = {"output": at.output} | _own_prices(at, WITH_OUTPUT)
    return Usage(
        **{
            max(of_input, key=lambda name: (of_input[name], name)): prompt_tokens,
            max(generated, key=lambda name: (generated[name], name == "output")): output_tokens,
        },
        gpu_ms=at.gpu_ms_max,
        unit=unit,
        units=units,
    )


def _own_prices(at: Prices, classes: Iterable[str]) -> dict[str, int]:
    return {each: price for each in classes if (price := getattr(at, each)) is not None}


def units_of(usage: Usage, prices: Prices) -> tuple[tuple[str, int, int], ...]:
    """(component, units, nano-USD per million) of which `rate` makes its parts, for invoices. Each
    part is the `amount_of` its units, but for the minimum, whose part is what the others lack."""
    at = prices.at_prompt(usage.prompt)
    return units_at(replace(usage, gpu_ms=min(usage.gpu_ms, at.gpu_ms_max)), at)


def units_at(usage: Usage, at: Prices) -> tuple[tuple[str, int, int], ...]:
    """`units_of` at the prices for one length of prompt, for one call or for the sum of many that
    have units of one kind. Of each call's `gpu_ms` only those up to the bound are in the usage."""
    extra_input = _without_price(usage, at, WITH_INPUT)
    extra_output = _without_price(usage, at, WITH_OUTPUT)
    own = _own_prices(at, (*WITH_INPUT, *WITH_OUTPUT))
    of_units = ((usage.unit, usage.units, at.unit_price(usage.unit) or 0),) if usage.unit else ()
    return (
        (Component.INPUT, usage.input + extra_input, at.input),
        (Component.CACHED_INPUT, usage.cached_input, at.cached_input),
        (Component.OUTPUT, usage.output + extra_output, at.output),
        *((each, getattr(usage, each), price) for each, price in own.items()),
        (Component.REQUEST, 1, at.request),
        (Component.MINIMUM, 1, at.minimum),
        (Component.GPU_MS, usage.gpu_ms, at.gpu_ms),
        *of_units,
    )


def rate_frozen(
    book: PriceBook, *, model: str, tier: str, batch: bool, usage: Usage, price_version: str
) -> Charge:
    """Rate usage at the version frozen on a call. No usage needs no price. Raises Unrateable."""
    if usage.is_nothing:
        return Charge(price_version)
    prices = book.of_version(price_version, model, tier, batch)
    if isinstance(prices, Unpriced):
        raise Unrateable(f"{model}/{tier}/batch={batch}: {prices.reason}")
    return rate(usage, prices)


def amounts_of_book(book: PriceBook) -> Rate:
    """`rate_frozen` over one book, in the form that the estimate of a cut call takes."""

    def amount(*, model: str, tier: str, batch: bool, usage: Usage, price_version: str) -> int:
        return rate_frozen(
            book, model=model, tier=tier, batch=batch, usage=usage, price_version=price_version
        ).amount_nanousd

    return amount


def hold_for(
    prompt_tokens: int, output_slice: int, prices: Prices, unit: str = "", units: int = 0
) -> int:
    """An upper bound, in nano-USD, of any charge with this prompt, at most this output and at most
    so many units.

    The prompt may be split among the classes that have prices, each rounded on its own. So may the
    output. n parts come to x + n/2 at most, where x is all of it at the dearest price.
    """
    at = prices.at_prompt(prompt_tokens)
    prompt, output = _split(prompt_tokens, at.of_prompt), _split(output_slice, at.of_completion)
    once = amount_of(1, at.request) + amount_of(at.gpu_ms_max, at.gpu_ms)
    if units:
        once += units_nanousd(unit, units, at)
    return max(prompt + output + once, amount_of(1, at.minimum))


def _split(tokens: int, prices: Sequence[int]) -> int:
    if len(prices) == 1:
        return -(-tokens * prices[0] // UNITS_PER_PRICE)
    return (2 * tokens * max(prices) // UNITS_PER_PRICE + len(prices)) // 2 if tokens else 0


def amount_of(units: int, nanousd_per_mtok: int) -> int:
    """units x price / 1 000 000, rounded half to even."""
    if not units or not nanousd_per_mtok:
        return 0
    return divide_half_even(units * nanousd_per_mtok, UNITS_PER_PRICE)
