"""Whole cents of exact amounts: a sum is rounded once, and its parts share its cents.

Pure. The method is the largest remainder: every part gets the cents that it has in full, and the
cents that are left go to the parts that lack the least to one more.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from billing.money import NANOUSD_PER_CENT, whole_cents
from billing.prices.rounding import divide_half_away

PPM = 1_000_000


def cents_by_group(amounts_nanousd: Sequence[int], groups: Sequence[Hashable]) -> tuple[int, ...]:
    """Cents of each amount; they sum to the cents of the sum. The sum of no group, and no amount
    within one, is a whole cent off: groups share the cents of the sum, and each shares its own.

    Groups are in the order of their first amount.
    """
    places: dict[Hashable, list[int]] = {}
    for place, group in enumerate(groups):
        places.setdefault(group, []).append(place)
    sums = [sum(amounts_nanousd[place] for place in each) for each in places.values()]
    cents = [0] * len(amounts_nanousd)
    for each, of_group in zip(places.values(), shared_cents(sums), strict=True):
        own = shared_cents([amounts_nanousd[place] for place in each], of_group)
        for place, part in zip(each, own, strict=True):
            cents[place] = part
    return tuple(cents)


def shared_cents(amounts_nanousd: Sequence[int], sum_cents: int | None = None) -> tuple[int, ...]:
    """Cents of each amount; they sum to the cents of the sum, or to `sum_cents`, which is less than
    one off it, and none is a whole cent off.

    Amounts below zero are allowed. Among equal remainders the earlier amount comes first.
    """
    split = [divmod(amount, NANOUSD_PER_CENT) for amount in amounts_nanousd]
    cents = [whole for whole, _ in split]
    if sum_cents is None:
        sum_cents = whole_cents(sum(amounts_nanousd))
    left = sum_cents - sum(cents)
    by_remainder = sorted(range(len(split)), key=lambda place: (-split[place][1], place))
    for place in by_remainder[:left]:
        cents[place] += 1
    return tuple(cents)


def tax_of(base_cents: int, rate_ppm: int) -> int:
    """The tax on the sum of a category, in cents, a half away from zero: BR-CO-17 of EN 16931.

    So a credit note has the tax of its invoice with the other sign.
    """
    return divide_half_away(base_cents * rate_ppm, PPM)


def taxes_of(base_cents: int, rates_ppm: Iterable[int]) -> tuple[int, ...]:
    """The tax of each jurisdiction on one base, each rounded for itself."""
    return tuple(tax_of(base_cents, rate_ppm) for rate_ppm in rates_ppm)


def in_proportion(weights: Sequence[int], cents: int) -> list[int]:
    """Whole cents in proportion, none above its weight; the largest remainders come first. `cents`
    are at most the sum of the weights."""
    whole = sum(weights)
    if not cents:
        return [0] * len(weights)
    split = [divmod(cents * weight, whole) for weight in weights]
    shares = [share for share, _ in split]
    by_remainder = sorted(range(len(split)), key=lambda n: (-split[n][1], n))
    for n in by_remainder[: cents - sum(shares)]:
        shares[n] += 1
    return shares
