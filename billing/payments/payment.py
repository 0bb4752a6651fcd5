"""What is due of an invoice, and what becomes of money that comes.

Pure. Amounts are whole cents. Whatever is above what is due is the organization's credit on
account.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

from billing.currencies.conversion import USD
from billing.money import NANOUSD_PER_CENT


class Source(StrEnum):
    """Who says that money came. No money came by a credit note: an invoice below zero, whose credit
    is on account."""

    HAND = "hand"
    BANK = "bank"
    STRIPE = "stripe"
    CREDIT_NOTE = "credit_note"


class PartKind(StrEnum):
    """Where a part of a payment went. What is in no part is credit on account."""

    INVOICE = "invoice"
    REFUND = "refund"
    REVERSAL = "reversal"


@dataclass(frozen=True, slots=True)
class Receipt:
    """Money of an organization that came in, by the name that its sender or bank gives it."""

    org: str
    external_id: str
    amount_cents: int
    received_us: int
    source: Source = Source.HAND
    currency: str = USD
    note: str = ""
    invoice_id: str | None = None
    """The invoice that it was sent for."""

    @property
    def payment_id(self) -> str:
        """One external id of an organization is one payment, however often it is told. The number
        of a credit note is free for payments."""
        named = f"{self.org}\n{self.external_id}"
        if self.source is Source.CREDIT_NOTE:
            named = f"{self.source}\n{named}"
        return f"pay_{sha256(named.encode()).hexdigest()[:24]}"


class BadPayment(ValueError):
    """A payment that is refused. `field` is what to change."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


def due(payable: int, *, paid: int, credited: int = 0) -> int:
    """Paid, credited and due sum to what is payable, whatever their signs."""
    return payable - credited - paid


def applied_cents(amount_cents: int, due_cents: int) -> int:
    """What of an amount an invoice takes; the rest stays on account."""
    return max(0, min(amount_cents, due_cents))


def cents_of(nanousd: int, field: str) -> int:
    """A positive amount in whole cents. Raises BadPayment."""
    cents, finer = divmod(nanousd, NANOUSD_PER_CENT)
    if finer or cents <= 0:
        raise BadPayment(field, "an amount is above zero and in whole cents")
    return cents
