"""Money of another currency that comes for an invoice which shows its total in it.

Pure. It is booked in USD, at the rate that the invoice froze. Parts of the amount that the invoice
shows sum to what it asks for in USD, to the cent: the last part takes what rounding has left.
"""

from __future__ import annotations

from dataclasses import dataclass

from billing.currencies.conversion import Conversion, Converted


@dataclass(frozen=True, slots=True)
class TenderedDue:
    """`due_cents` is what such money is to pay of an invoice in all, in USD, and `booked_cents`
    what it has paid. `came_cents` is how much of it came, in cents of its own currency."""

    conversion: Conversion
    due_cents: int
    booked_cents: int = 0
    came_cents: int = 0

    @property
    def left_cents(self) -> int:
        """What is to come yet, in cents of its own currency."""
        if self.due_cents <= self.booked_cents:
            return 0
        return max(0, self.conversion.cents(self.due_cents) - self.came_cents)

    def usd_cents(self, cents: int) -> int:
        """What so much of it is in USD: with all that came, its worth; with the last of it, what is
        due; and above that at the rate."""
        left = self.left_cents
        if not left:
            return self.conversion.usd_cents(cents)
        if cents >= left:
            return self.due_cents - self.booked_cents + self.conversion.usd_cents(cents - left)
        worth = self.conversion.usd_cents(self.came_cents + cents)
        return max(0, min(worth, self.due_cents - 1) - self.booked_cents)


def converted(
    rate: Conversion,
    tax_cents: int,
    total_cents: int,
    left_cents: int,
    tendered: TenderedDue | None = None,
) -> Converted:
    """What an invoice says in its other currency. `tendered` is of one that such money has paid a
    part of."""
    is_owed = left_cents > 0
    due_cents = tendered.left_cents if tendered and is_owed else rate.cents(left_cents)
    return Converted(rate, rate.cents(tax_cents), rate.cents(total_cents), due_cents)
