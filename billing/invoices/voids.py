"""Voiding: a final invoice that does not count any more, and what it had of the ledger is free.

Its number stays. Its amounts go back from what is owed to what is unbilled, its taxes are owed no
more, and what was paid is credit on account. What one below zero credited is not on account any
more, and invoices that took it are due again. The next run makes the next revision of its month,
which has a number of its own. Guards laws 1 and 4.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from billing.db.engine import Store, take_turns
from billing.dunning.suspension import lift
from billing.invoices import agreed
from billing.invoices import store as rows
from billing.invoices.issuing import take_back
from billing.invoices.result import InvoiceResult
from billing.invoices.store import RUN_LOCK, UnknownInvoice
from billing.ledger import store as transfers
from billing.payments import paying
from billing.payments.paying import PaymentConflict


class NotIssued(Exception):
    """A draft has no number: it is not voided, it is made anew."""


class WrongInvoiceStatus(Exception):
    """An invoice of this status does not go there. The message says why."""


def void(store: Store, invoice_id: str, *, reason: str, by: str, now_us: int) -> InvoiceResult:
    """The invoice, which is void from now on; again changes nothing. Raises UnknownInvoice,
    NotIssued, and WrongInvoiceStatus for one that is written off, credited or refunded."""
    with store.write() as conn:
        take_turns(conn, RUN_LOCK)
        invoice = rows.by_id(conn, invoice_id)
        if invoice is None:
            raise UnknownInvoice(invoice_id)
        if invoice["status"] != "finalised":
            raise NotIssued(f"{invoice_id} is a draft")
        if invoice["written_off_cents"] is not None:
            raise WrongInvoiceStatus("it is written off")
        if invoice["noted_cents"]:
            raise WrongInvoiceStatus("it has credit notes")
        lines = rows.lines(conn, invoice_id)
        taxation = rows.taxes_of(conn, invoice_id, lines)
        if invoice["voided_us"] is None:
            rows.insert_void(conn, invoice_id, reason, by, now_us)
            take_back(conn, invoice, taxation, now_us)
            transfers.post(conn, agreed.taken_back(invoice, lines, now_us))
            _free(conn, invoice_id, by, now_us)
            lift(conn, invoice["org"], now_us)
            invoice = {**invoice, "voided_us": now_us, "paid_cents": 0}
        return InvoiceResult(invoice, lines, taxation=taxation, seen_us=now_us)


def _free(conn: Connection, invoice_id: str, by: str, now_us: int) -> None:
    words: dict[str, Any] = {"reason": "void", "by": by, "now_us": now_us}
    paying.free(conn, invoice_id, **words)
    try:
        paying.take_back_credit(conn, invoice_id, **words)
    except PaymentConflict as refunded:
        raise WrongInvoiceStatus(str(refunded)) from refunded
