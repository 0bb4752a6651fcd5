"""What happened to an invoice, in the order of its instants: of the rows that say so.

Pure. Nothing is written for a history, so it knows what the rows know: of a draft when it was
written last, and of what a person said of it the last word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from billing.money import NANOUSD_PER_CENT
from billing.outbox.event import EventType, OutboxEvent

Row = Mapping[str, Any]


class HistoryKind(StrEnum):
    """In the order of those that happened at one instant."""

    DRAFTED = "drafted"
    HELD = "held"
    APPROVED = "approved"
    ISSUED = "issued"
    DUNNED = "dunning_step"
    SUSPENDED = "suspended"
    CREDITED = "credited"
    VOIDED = "voided"
    WRITTEN_OFF = "written_off"
    PAID = "payment"
    PAID_BACK = "payment_back"
    REINSTATED = "reinstated"
    REPLACED = "replaced"
    DELIVERY = "delivery"


ORDER = tuple(HistoryKind)
TURNS = {
    EventType.ORGANIZATION_SUSPENDED: HistoryKind.SUSPENDED,
    EventType.ORGANIZATION_REINSTATED: HistoryKind.REINSTATED,
}
"""Of an organization, in the transaction of what happened to its invoice."""


@dataclass(frozen=True, slots=True)
class DeliveryState:
    """How the telling of an event goes; `status` and `problem` are of the last try."""

    event: EventType
    is_mailed: bool
    state: str
    tries: int
    changed_us: int
    status: int | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """`actor` is "" where Sluice did it of itself. `reference` is the id of a payment, credit note,
    invoice or endpoint, `name` an external id, a number, a step or a type of event."""

    kind: HistoryKind
    at_us: int
    actor: str = ""
    amount_cents: int | None = None
    reason: str = ""
    reference: str = ""
    name: str = ""
    n: int = 0
    """Of several parts of one payment."""
    delivery: DeliveryState | None = None

    @property
    def amount_nanousd(self) -> int | None:
        return None if self.amount_cents is None else self.amount_cents * NANOUSD_PER_CENT

    @property
    def key(self) -> tuple[int, str]:
        """Its place, which no other event of the invoice has."""
        rank = f"{ORDER.index(self.kind):02d}"
        return self.at_us, f"{rank} {self.reference} {self.n:06d} {self.name}"


@dataclass(frozen=True, slots=True)
class InvoiceRows:
    """What is written of one invoice beside itself."""

    invoice: Row
    number: str | None
    payable_cents: int
    review: Row | None
    steps: Sequence[Row]
    parts: Sequence[Row]
    notes: Sequence[Row]
    void: Row | None
    write_off: Row | None
    replacement: Row | None


def events_of(rows: InvoiceRows) -> list[HistoryEvent]:
    """In no order."""
    return [
        *_life(rows),
        *(_step(row) for row in rows.steps),
        *(_part(row) for row in rows.parts),
        *(_note(row) for row in rows.notes),
        *_end(rows),
    ]


def _life(rows: InvoiceRows) -> Iterator[HistoryEvent]:
    invoice, review = rows.invoice, rows.review
    if review is not None:
        because, cents = review["held_because"], review["approved_cents"]
        kind = HistoryKind.HELD if because else HistoryKind.APPROVED
        by = review["changed_by"]
        yield HistoryEvent(kind, review["changed_us"], by, cents, reason=because)
    at_us = invoice["computed_us"]
    if rows.number is None:
        yield HistoryEvent(HistoryKind.DRAFTED, at_us, amount_cents=rows.payable_cents)
    else:
        issued_by = review["changed_by"] if review and review["changed_us"] == at_us else ""
        amount = rows.payable_cents
        yield HistoryEvent(HistoryKind.ISSUED, at_us, issued_by, amount, name=rows.number)


def _step(row: Row) -> HistoryEvent:
    left_cents, name = row["left_cents"], row["step"]
    return HistoryEvent(HistoryKind.DUNNED, row["taken_us"], amount_cents=left_cents, name=name)


def _part(row: Row) -> HistoryEvent:
    cents = row["amount_cents"]
    return HistoryEvent(
        HistoryKind.PAID if cents > 0 else HistoryKind.PAID_BACK,
        row["created_us"],
        row["created_by"],
        abs(cents),
        reason=row["reason"],
        reference=row["payment_id"],
        name=row["external_id"],
        n=row["n"],
    )


def _note(row: Row) -> HistoryEvent:
    return HistoryEvent(
        HistoryKind.CREDITED,
        row["created_us"],
        row["created_by"],
        row["net_cents"] + row["tax_cents"],
        reason=row["reason"],
        reference=row["note_id"],
        name=f"{row['series']}-{row['number']:06d}",
    )


def _end(rows: InvoiceRows) -> Iterator[HistoryEvent]:
    void, written_off, replacement = rows.void, rows.write_off, rows.replacement
    if void is not None:
        by, reason = void["voided_by"], void["reason"]
        yield HistoryEvent(HistoryKind.VOIDED, void["voided_us"], by, reason=reason)
    if written_off is not None:
        yield HistoryEvent(
            HistoryKind.WRITTEN_OFF,
            written_off["written_us"],
            written_off["written_by"],
            written_off["amount_cents"],
            reason=written_off["reason"],
        )
    if replacement is not None:
        invoice_id, number = replacement["invoice_id"], replacement["number"] or ""
        at_us = replacement["computed_us"]
        yield HistoryEvent(HistoryKind.REPLACED, at_us, reference=invoice_id, name=number)


def outbox_ids(invoice: Row, events: Iterable[HistoryEvent]) -> set[str]:
    """The ids of the outbox events that these events may have written."""
    return {
        OutboxEvent(kind, invoice["org"], object_id, {}, 0, turn).event_id
        for event in events
        for kind, object_id, turn in _outbox_names(invoice, event)
    }


def _outbox_names(invoice: Row, event: HistoryEvent) -> Iterator[tuple[EventType, str, str]]:
    """Type, object and turn, as `OutboxEvent` has them."""
    invoice_id = invoice["invoice_id"]
    match event.kind:
        case HistoryKind.ISSUED:
            yield EventType.INVOICE_ISSUED, invoice_id, ""
        case HistoryKind.VOIDED:
            yield EventType.INVOICE_VOIDED, invoice_id, ""
        case HistoryKind.DUNNED:
            yield EventType.INVOICE_OVERDUE, invoice_id, event.name
        case HistoryKind.PAID:
            yield EventType.INVOICE_PAID, invoice_id, event.reference
            yield EventType.PAYMENT_RECEIVED, event.reference, ""
    for kind in TURNS:
        yield kind, invoice["org"], str(event.at_us)
