"""The history of an invoice as it is read: what happened, who was told of it, and what comes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from sqlalchemy import Connection

from billing.dunning.dunning import unpaid_of
from billing.dunning.steps import DunningStep, StepName, upcoming
from billing.history import store as rows
from billing.history.event import (
    TURNS,
    DeliveryState,
    HistoryEvent,
    HistoryKind,
    Row,
    events_of,
    outbox_ids,
)
from billing.invoices.result import InvoiceResult
from billing.invoices.status import InvoiceStatus
from billing.outbox.event import EventType
from billing.outbox.mail.address import is_mailed

DUNNED = (InvoiceStatus.OPEN, InvoiceStatus.OVERDUE)


@dataclass(frozen=True, slots=True)
class ComingStep:
    """The step that is taken next, from a day on, unless the invoice is paid before."""

    step: StepName
    day: date


@dataclass(frozen=True, slots=True)
class InvoiceHistory:
    """The oldest event first."""

    events: tuple[HistoryEvent, ...]
    coming: ComingStep | None


def history_of(
    conn: Connection, result: InvoiceResult, steps: Sequence[DunningStep]
) -> InvoiceHistory:
    invoice = result.invoice
    written = rows.rows_of(conn, invoice, result.number, result.payable_cents)
    events = events_of(written)
    outgoing = rows.outbox_events(conn, sorted(outbox_ids(invoice, events)))
    turned = [
        HistoryEvent(TURNS[kind], row["created_us"])
        for row in outgoing
        if (kind := EventType(row["type"])) in TURNS
    ]
    ids = sorted(row["event_id"] for row in outgoing)
    sent = [_delivery(row) for row in rows.deliveries(conn, ids)]
    ordered = sorted([*events, *turned, *sent], key=lambda event: event.key)
    return InvoiceHistory(tuple(ordered), _coming(result, written.steps, steps))


def _delivery(row: Row) -> HistoryEvent:
    kind = EventType(row["type"])
    state = DeliveryState(
        kind,
        is_mailed(row["url"]),
        row["state"],
        row["tries"],
        row["changed_us"],
        row["status"],
        row["problem"],
    )
    return HistoryEvent(
        *(HistoryKind.DELIVERY, row["created_us"]),
        reference=row["endpoint_id"],
        name=row["event_id"],
        delivery=state,
    )


def _coming(
    result: InvoiceResult, taken: Sequence[Row], steps: Sequence[DunningStep]
) -> ComingStep | None:
    if result.status not in DUNNED or result.invoice["due_us"] is None:
        return None
    days = {StepName(row["step"]): row["taken_us"] for row in taken}
    coming = upcoming(unpaid_of(result.invoice, days), steps)
    return ComingStep(coming[0].name, coming[1]) if coming else None
