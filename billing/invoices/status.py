"""What an invoice is, of what the ledger has for it and of the day: a function, not a state.

Pure. Only drafts, numbers, voids and write-offs are written. An invoice is paid once nothing is
left of it, and overdue once its day is past, whoever looks.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class InvoiceStatus(StrEnum):
    """`parked`: a draft that a person must clear. `overdue`: open, and its day is past."""

    DRAFT = "draft"
    PARKED = "parked"
    OPEN = "open"
    OVERDUE = "overdue"
    PAID = "paid"
    VOID = "void"
    UNCOLLECTIBLE = "uncollectible"


@dataclass(frozen=True, slots=True)
class InvoiceStanding:
    """`left_cents` is what is payable less what was paid and credited; `due_us` the instant after
    which it is overdue, None where no terms were agreed on."""

    is_final: bool
    is_parked: bool
    is_void: bool
    is_written_off: bool
    left_cents: int
    due_us: int | None


def status_of(standing: InvoiceStanding, now_us: int) -> InvoiceStatus:
    if not standing.is_final:
        return InvoiceStatus.PARKED if standing.is_parked else InvoiceStatus.DRAFT
    if standing.is_void:
        return InvoiceStatus.VOID
    if standing.is_written_off:
        return InvoiceStatus.UNCOLLECTIBLE
    if standing.left_cents <= 0:
        return InvoiceStatus.PAID
    is_past = standing.due_us is not None and standing.due_us < now_us
    return InvoiceStatus.OVERDUE if is_past else InvoiceStatus.OPEN
