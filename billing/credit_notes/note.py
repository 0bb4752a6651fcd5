"""What a credit note takes back of an invoice: an amount with tax, or amounts of lines without.

Pure. Cents throughout. Tax goes back in proportion, of each treatment for itself, and what all
notes of an invoice have taken of it stands within a cent of the rate. The last note takes exactly
what is left, so nothing is ever above it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from billing.cents import PPM, in_proportion, taxes_of


class BadCredit(ValueError):
    """A credit that is refused. `field` is what to change."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True)
class Creditable:
    """What of the lines of one treatment was billed, and what notes have taken of it so far. The
    place is that of the invoice's tax, 0 where it has none. Jurisdictions that share a treatment
    have a rate and a tax each."""

    place: int
    rates_ppm: tuple[int, ...]
    base_cents: int
    taxes_cents: tuple[int, ...]
    credited_base_cents: int = 0
    credited_taxes_cents: tuple[int, ...] = ()

    @property
    def tax_cents(self) -> int:
        return sum(self.taxes_cents)

    @property
    def credited_tax_cents(self) -> int:
        return sum(self.credited_taxes_cents)

    @property
    def left_cents(self) -> int:
        return max(0, self.base_cents + self.tax_cents - self._credited_cents)

    @property
    def _credited_cents(self) -> int:
        return self.credited_base_cents + self.credited_tax_cents

    def with_tax(self, cents: int) -> CreditedPart:
        """The part of an amount that includes its tax: the most base that it may have."""
        upto = self._credited_cents + cents
        most = upto * PPM // (PPM + sum(self.rates_ppm)) + len(self.rates_ppm)
        base = min(self.base_cents, most)
        while base + self._tax_of(base) > upto:
            base -= 1
        taken = max(0, base - self.credited_base_cents)
        return self._part(taken, cents - taken)

    def without_tax(self, base_cents: int) -> CreditedPart:
        upto = self.credited_base_cents + base_cents
        whole = self.tax_cents if upto == self.base_cents else self._tax_of(upto)
        return self._part(base_cents, max(0, whole - self.credited_tax_cents))

    def _tax_of(self, base_cents: int) -> int:
        return sum(taxes_of(base_cents, self.rates_ppm))

    def _part(self, base_cents: int, tax_cents: int) -> CreditedPart:
        """What is taken of each jurisdiction is in proportion to what is left of its tax."""
        credited = self.credited_taxes_cents or (0,) * len(self.taxes_cents)
        left = [max(0, a - b) for a, b in zip(self.taxes_cents, credited, strict=True)]
        return CreditedPart(self.place, base_cents, tuple(in_proportion(left, tax_cents)))


@dataclass(frozen=True, slots=True)
class CreditedPart:
    """What a note takes of one treatment; its taxes stand in the order of the invoice's."""

    place: int
    base_cents: int
    taxes_cents: tuple[int, ...]

    @property
    def tax_cents(self) -> int:
        return sum(self.taxes_cents)

    @property
    def cents(self) -> int:
        return self.base_cents + self.tax_cents


@dataclass(frozen=True, slots=True)
class CreditedLine:
    """What a note takes of one line of its invoice, without tax; `line_seq` is 0 where it is of
    none in particular, `quantity` 0 where it is an amount."""

    line_seq: int
    place: int
    quantity: int
    amount_cents: int


def of_amount(
    parts: Sequence[Creditable], cents: int | None, left_cents: int
) -> tuple[CreditedPart, ...]:
    """An amount with tax, or all that is left; each treatment bears its share. Raises BadCredit."""
    cents = left_cents if cents is None else cents
    _check(cents, min(left_cents, sum(part.left_cents for part in parts)), "amount_usd")
    shares = in_proportion([part.left_cents for part in parts], cents)
    credited = [part.with_tax(share) for part, share in zip(parts, shares, strict=True)]
    return tuple(part for part in credited if part.cents)


def of_lines(
    parts: Sequence[Creditable], lines: Iterable[CreditedLine], left_cents: int
) -> tuple[CreditedPart, ...]:
    """Amounts of lines, without tax. Raises BadCredit."""
    bases: dict[int, int] = {}
    for line in lines:
        bases[line.place] = bases.get(line.place, 0) + line.amount_cents
    by_place = {part.place: part for part in parts}
    credited = []
    for place, base in sorted(bases.items()):
        part = by_place[place]
        _check(base, part.base_cents - part.credited_base_cents, "lines")
        credited.append(part.without_tax(base))
    _check(sum(part.cents for part in credited), left_cents, "lines")
    return tuple(credited)


def _check(cents: int, left_cents: int, field: str) -> None:
    if cents <= 0:
        raise BadCredit(field, "it credits nothing")
    if cents > left_cents:
        raise BadCredit(field, f"{cents} cents are above what is left of it, {left_cents}")
