"""What receivers are told of an invoice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from billing.invoices.store import number_of, payable_cents
from billing.money import NANOUSD_PER_CENT, usd
from billing.outbox import store as outbox
from billing.outbox.event import EventType, OutboxEvent, instant


def tell_of_invoice(
    conn: Connection,
    kind: EventType,
    invoice: Mapping[str, Any],
    now_us: int,
    turn: str = "",
    *,
    more: Mapping[str, Any] | None = None,
) -> None:
    """In the transaction of what happened to it. `more` is told beside what is told of all."""
    data = {
        "id": invoice["invoice_id"],
        "number": number_of(invoice),
        "organization": invoice["org"],
        "period": invoice["period"],
        "currency": invoice["currency"],
        "total_usd": usd(payable_cents(invoice) * NANOUSD_PER_CENT),
        "due_at": None if invoice["due_us"] is None else instant(invoice["due_us"]),
        **(more or {}),
    }
    outbox.tell(conn, OutboxEvent(kind, invoice["org"], invoice["invoice_id"], data, now_us, turn))
