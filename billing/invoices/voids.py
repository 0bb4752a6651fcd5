"""Voiding: a final invoice that does not count any more, and what it had of the ledger is free.

Its number stays, and its amounts go back from what is owed to what is unbilled. The next run makes
the next revision of its month, which has a number of its own. Guards laws 1 and 4.
"""

from __future__ import annotations

from typing import Any

from billing.db.engine import Store, take_turns
from billing.invoices import store as rows
from billing.invoices.months import ROUNDING, RUN_LOCK, InvoiceResult
from billing.ledger import store as transfers
from billing.ledger.posting import transfer, unbilled


class UnknownInvoice(LookupError):
    """There is no invoice of this id."""


class NotIssued(Exception):
    """A draft has no number: it is not voided, it is made anew."""


def void(store: Store, invoice_id: str, *, reason: str, by: str, now_us: int) -> InvoiceResult:
    """The invoice, which is void from now on; again changes nothing. Raises UnknownInvoice,
    NotIssued."""
    with store.write() as conn:
        take_turns(conn, RUN_LOCK)
        invoice = rows.by_id(conn, invoice_id)
        if invoice is None:
            raise UnknownInvoice(invoice_id)
        if invoice["status"] != "finalised":
            raise NotIssued(f"{invoice_id} is a draft")
        if invoice["voided_us"] is None:
            rows.insert_void(conn, invoice_id, reason, by, now_us)
            transfers.post(conn, _taken_back(invoice, now_us))
            invoice = {**invoice, "voided_us": now_us}
        return InvoiceResult(invoice, rows.lines(conn, invoice_id))


def _taken_back(invoice: dict[str, Any], now_us: int) -> list[dict[str, Any]]:
    """What undoes the transfers that issued an invoice."""
    org, invoice_id = invoice["org"], invoice["invoice_id"]
    receivable = f"org:{org}:receivable"
    moves = (
        ("invoice", unbilled(org), invoice["subtotal_nanousd"]),
        ("rounding", ROUNDING, invoice["rounding_nanousd"]),
    )
    return [
        transfer(
            f"{invoice_id}:{part}:void",
            "invoice_void",
            other if amount > 0 else receivable,
            receivable if amount > 0 else other,
            abs(amount),
            org=org,
            booked_us=now_us,
            created_us=now_us,
        )
        for part, other, amount in moves
        if amount
    ]
