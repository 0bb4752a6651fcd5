"""Rating: usage times prices, in integers.

Each component is rounded once, half to even, to a whole nano-dollar. A charge is the sum of its
components. So the same usage and the same price version give the same charge for ever. Knows no
clock, no storage and no currency but nano-USD.
"""

from __future__ import annotations

from operator import attrgetter

import msgspec
from msgspec.structs import replace

from billing.prices.book import Component, PriceBook, Prices, Unpriced
from billing.prices.estimate import Rate
from billing.prices.rounding import divide_half_even
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
    if not usage.total:
        return Charge(prices.version_id)
    at = prices.at_prompt(usage.prompt)
    input_tokens, generated = usage.input, usage.output
    cache_write = reasoning = gpu_ms = 0
    if usage.cache_write:
        if at.cache_write is None:
            input_tokens += usage.cache_write
        else:
            cache_write = amount_of(usage.cache_write, at.cache_write)
    if usage.reasoning:
        if at.reasoning is None:
            generated += usage.reasoning
        else:
            reasoning = amount_of(usage.reasoning, at.reasoning)
    if usage.gpu_ms:
        gpu_ms = amount_of(min(usage.gpu_ms, at.gpu_ms_max), at.gpu_ms)
    charge = Charge(
        version_id=at.version_id,
        input_nanousd=amount_of(input_tokens, at.input),
        cached_input_nanousd=amount_of(usage.cached_input, at.cached_input),
        output_nanousd=amount_of(generated, at.output),
        request_nanousd=amount_of(1, at.request),
        cache_write_nanousd=cache_write,
        reasoning_nanousd=reasoning,
        gpu_ms_nanousd=gpu_ms,
    )
    if not at.minimum:
        return charge
    lacking = amount_of(1, at.minimum) - charge.amount_nanousd
    return replace(charge, minimum_nanousd=lacking) if lacking > 0 else charge


def dearest(prompt_tokens: int, output_tokens: int, prices: Prices) -> Usage:
    """The usage that costs most of all usage with so many tokens."""
    at = prices.at_prompt(prompt_tokens)
    of_input = {
        "cache_write": at.cache_write or 0,
        "cached_input": at.cached_input,
        "input": at.input,
    }
    generated = {"reasoning": at.reasoning or 0, "output": at.output}
    return Usage(
        **{
            max(of_input, key=lambda name: (of_input[name], name)): prompt_tokens,
            max(generated, key=lambda name: (generated[name], name == "output")): output_tokens,
        },
        gpu_ms=at.gpu_ms_max,
    )


def units_of(usage: Usage, prices: Prices) -> tuple[tuple[Component, int, int], ...]:
    """(component, units, nano-USD per million) of which `rate` makes its parts, for invoices. Each
    part is the `amount_of` its units, but for the minimum, whose part is what the others lack."""
    at = prices.at_prompt(usage.prompt)
    return units_at(replace(usage, gpu_ms=min(usage.gpu_ms, at.gpu_ms_max)), at)


def units_at(usage: Usage, at: Prices) -> tuple[tuple[Component, int, int], ...]:
    """`units_of` at the prices for one length of prompt, for one call or for the sum of many. Of
    each call's `gpu_ms` only those up to the bound are in the usage."""
    extra_input = usage.cache_write if at.cache_write is None else 0
    reasoned = usage.reasoning if at.reasoning is None else 0
    return (
        (Component.INPUT, usage.input + extra_input, at.input),
        (Component.CACHED_INPUT, usage.cached_input, at.cached_input),
        (Component.CACHE_WRITE, usage.cache_write - extra_input, at.cache_write or 0),
        (Component.OUTPUT, usage.output + reasoned, at.output),
        (Component.REASONING, usage.reasoning - reasoned, at.reasoning or 0),
        (Component.REQUEST, 1, at.request),
        (Component.MINIMUM, 1, at.minimum),
        (Component.GPU_MS, usage.gpu_ms, at.gpu_ms),
    )


def rate_frozen(
    book: PriceBook, *, model: str, tier: str, batch: bool, usage: Usage, price_version: str
) -> Charge:
    """Rate usage at the version frozen on a call. No usage needs no price. Raises Unrateable."""
    if not usage.total:
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


def hold_for(prompt_tokens: int, output_slice: int, prices: Prices) -> int:
    """An upper bound, in nano-USD, of any charge with this prompt and at most this output.

    The prompt may be split among the classes that have prices, each rounded on its own. So may the
    output. n parts come to x + n/2 at most, where x is all of it at the dearest price.
    """
    at = prices.at_prompt(prompt_tokens)
    prompt = output = 0
    if prompt_tokens:
        if at.cache_write is None:
            prompt = prompt_tokens * max(at.input, at.cached_input) // UNITS_PER_PRICE + 1
        else:
            dearest = max(at.input, at.cached_input, at.cache_write)
            prompt = (2 * prompt_tokens * dearest // UNITS_PER_PRICE + 3) // 2
    if at.reasoning is None:
        output = -(-output_slice * at.output // UNITS_PER_PRICE)
    elif output_slice:
        output = output_slice * max(at.output, at.reasoning) // UNITS_PER_PRICE + 1
    once = amount_of(1, at.request) + amount_of(at.gpu_ms_max, at.gpu_ms)
    return max(prompt + output + once, amount_of(1, at.minimum))


def amount_of(units: int, nanousd_per_mtok: int) -> int:
    """units x price / 1 000 000, rounded half to even."""
    if not units or not nanousd_per_mtok:
        return 0
    return divide_half_even(units * nanousd_per_mtok, UNITS_PER_PRICE)
