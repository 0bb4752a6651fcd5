"""Rating: usage times prices, in integers.

Each component is rounded once, half to even, to a whole nano-dollar, and a charge is the sum
of its components; so the same usage and the same price version give the same charge for ever.
Knows no clock, no storage and no currency but nano-USD.
"""

from __future__ import annotations

from dataclasses import dataclass

from billing.estimate import Rate
from billing.pricebook import PriceBook, Prices, Unpriced
from billing.types import Usage

UNITS_PER_PRICE = 1_000_000


class Unrateable(Exception):
    """The call names a price that no version of the book has."""


@dataclass(frozen=True, slots=True)
class Charge:
    """Nano-USD by component, and the version of the book that gave them."""

    version_id: str
    input_nanousd: int = 0
    cached_input_nanousd: int = 0
    output_nanousd: int = 0
    request_nanousd: int = 0

    @property
    def amount_nanousd(self) -> int:
        return (
            self.input_nanousd
            + self.cached_input_nanousd
            + self.output_nanousd
            + self.request_nanousd
        )


def rate(usage: Usage, prices: Prices) -> Charge:
    """What the usage costs. Nothing generated and nothing read costs nothing, fee included."""
    requests = 1 if usage.input or usage.cached_input or usage.output else 0
    return Charge(
        version_id=prices.version_id,
        input_nanousd=amount_of(usage.input, prices.input),
        cached_input_nanousd=amount_of(usage.cached_input, prices.cached_input),
        output_nanousd=amount_of(usage.output, prices.output),
        request_nanousd=amount_of(requests, prices.request),
    )


def rate_frozen(
    book: PriceBook, *, model: str, tier: str, batch: bool, usage: Usage, price_version: str
) -> Charge:
    """Rate at the version frozen on a call; raises Unrateable. No usage needs no price."""
    if not usage.total:
        return Charge(price_version)
    prices = book.of_version(price_version, model, tier, batch)
    if isinstance(prices, Unpriced):
        raise Unrateable(f"{model}/{tier}/batch={batch}: {prices.reason}")
    return rate(usage, prices)


def amounts_of_book(book: PriceBook) -> Rate:
    """`rate_frozen` over one book, as the estimate of a cut call wants it."""

    def amount(*, model: str, tier: str, batch: bool, usage: Usage, price_version: str) -> int:
        return rate_frozen(
            book, model=model, tier=tier, batch=batch, usage=usage, price_version=price_version
        ).amount_nanousd

    return amount


def hold_for(prompt_tokens: int, output_slice: int, prices: Prices) -> int:
    """An upper bound, nano-USD, of any charge with this prompt and at most this output.

    The prompt may split between input and cached input, each rounded on its own, so its part
    is bounded by floor(x) + 1 at the dearer of the two prices.
    """
    dearer = max(prices.input, prices.cached_input)
    prompt = prompt_tokens * dearer // UNITS_PER_PRICE + 1 if prompt_tokens else 0
    output = -(-output_slice * prices.output // UNITS_PER_PRICE)
    return prompt + output + amount_of(1, prices.request)


def amount_of(units: int, nanousd_per_mtok: int) -> int:
    """units x price / 1 000 000, rounded half to even."""
    if not units:
        return 0
    return divide_half_even(units * nanousd_per_mtok, UNITS_PER_PRICE)


def divide_half_even(dividend: int, divisor: int) -> int:
    """Integer division rounded to the nearest, a tie to the even neighbour; divisor > 0."""
    whole, rest = divmod(dividend, divisor)
    if rest * 2 > divisor or (rest * 2 == divisor and whole % 2):
        return whole + 1
    return whole
