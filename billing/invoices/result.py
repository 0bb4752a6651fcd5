"""One invoice as it is looked at: its rows, its taxes, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from billing.currencies.conversion import Conversion, Converted
from billing.invoices import store as rows
from billing.invoices.invoicing import LineKind
from billing.invoices.status import InvoiceStanding, InvoiceStatus, status_of
from billing.money import NANOUSD_PER_CENT
from billing.payments.payment import due
from billing.payments.tendered import TenderedDue, converted
from billing.taxes.taxation import NO_TAX, Taxation

TO_COME = "the invoice run that finalises it is still to come"
NOT_ISSUED = "nobody has issued it yet"
"""Why a draft is one that nothing keeps from being issued."""


def is_final(invoice: Mapping[str, Any]) -> bool:
    return bool(invoice["status"] == "finalised")


@dataclass(frozen=True, slots=True)
class InvoiceResult:
    """One invoice after a run. A draft has the reasons why it is one."""

    invoice: dict[str, Any]
    lines: list[dict[str, Any]]
    draft_because: tuple[str, ...] = ()
    parked_because: tuple[str, ...] = ()
    """Those of the reasons that a person must clear."""
    taxation: Taxation = NO_TAX
    """Frozen with the number, or of a draft by the rules of now."""
    seen_us: int = field(default=0, compare=False)
    """When it was looked at."""
    lacks: tuple[str, ...] = field(default=(), compare=False)
    """Those of `parked_because` that no approval clears, once it was read."""
    rate: Conversion | None = None
    """Of a draft that shows another currency: the rate of now, if there is one."""
    tendered: TenderedDue | None = None
    """Of one that payments of the currency that it shows have paid a part of."""

    @property
    def conversion(self) -> Conversion | None:
        return self.rate or rows.conversion_of(self.invoice)

    @property
    def converted(self) -> Converted | None:
        """What it says in another currency; None where it says all in USD."""
        rate = self.conversion
        amounts = self.taxation.tax_cents, self.payable_cents, self.left_cents
        return None if rate is None else converted(rate, *amounts, self.tendered)

    @property
    def status(self) -> InvoiceStatus:
        standing = InvoiceStanding(
            is_final=is_final(self.invoice),
            is_parked=bool(self.parked_because),
            is_void=self.invoice["voided_us"] is not None,
            is_written_off=self.invoice["written_off_cents"] is not None,
            left_cents=self.left_cents,
            due_us=self.invoice["due_us"],
        )
        return status_of(standing, self.seen_us)

    @property
    def left_cents(self) -> int:
        """What is to be paid of it yet."""
        if self.invoice["voided_us"] is not None:
            return 0
        paid, credited = self.invoice["paid_cents"], rows.credited_cents(self.invoice)
        return due(self.payable_cents, paid=paid, credited=credited)

    @property
    def waits_because(self) -> tuple[str, ...]:
        """Those of the reasons that pass by themselves."""
        others = (*self.parked_because, TO_COME, NOT_ISSUED)
        return tuple(reason for reason in self.draft_because if reason not in others)

    @property
    def number(self) -> str | None:
        """`SLU-2026-000001`; a draft has none."""
        return rows.number_of(self.invoice)

    @property
    def payable_cents(self) -> int:
        """What its lines sum to, and the tax."""
        return int(self.invoice["total_cents"]) + self.taxation.tax_cents

    @property
    def priced_lines(self) -> list[dict[str, Any]]:
        """The lines, each with its whole cents; they sum to the total without tax."""
        cents = self.taxation.cents(self.lines, int(self.invoice["total_cents"]))
        return [{**line, "amount_cents": cents[line["seq"]]} for line in self.lines]

    @property
    def discount_nanousd(self) -> int:
        """What discounts take off, without credit."""
        discounts = (line for line in self.lines if line["kind"] == LineKind.DISCOUNT)
        return -sum(int(line["amount_nanousd"]) for line in discounts)

    @property
    def net_nanousd(self) -> int:
        """What its lines sum to."""
        return int(self.invoice["total_cents"]) * NANOUSD_PER_CENT

    @property
    def tax_nanousd(self) -> int:
        return self.taxation.tax_cents * NANOUSD_PER_CENT

    @property
    def total_nanousd(self) -> int:
        return self.payable_cents * NANOUSD_PER_CENT

    @property
    def paid_nanousd(self) -> int:
        return int(self.invoice["paid_cents"]) * NANOUSD_PER_CENT

    @property
    def due_nanousd(self) -> int:
        """Of a draft what it would ask for; of a void one nothing."""
        return self.left_cents * NANOUSD_PER_CENT
