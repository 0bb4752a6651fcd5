"""Issuing: a draft gets its number, parties and taxes are frozen, and the ledger has the amounts.

All of it happens in the caller's transaction, and what the organization has on account pays it.
Used amounts become owed ones. The rounding to cents and each tax are transfers of their own. What
takes an invoice back are the same transfers the other way round. Guards laws 1 and 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sqlalchemy import Connection

from billing.currencies.conversion import Conversion
from billing.invoices import store as rows
from billing.invoices.events import tell_of_invoice
from billing.ledger import store as transfers
from billing.ledger.posting import ROUNDING, receivable, transfer, unbilled
from billing.money import NANOUSD_PER_CENT
from billing.outbox.event import EventType
from billing.parties.store import BilledAs
from billing.payments import paying
from billing.payments import store as payments
from billing.taxes.taxation import TaxAmount, Taxation, TaxPart

Invoice = Mapping[str, Any]
ONE_OFF_REVENUE = "revenue:one_off"
BY = "issue"
"""Who takes from what is on account."""
UNDONE = ":void"
"""Ends the id of a transfer that undoes another one."""


def issue(
    conn: Connection,
    invoice: Invoice,
    taxation: Taxation,
    billed_as: BilledAs | None,
    *,
    series: str,
    now_us: int,
    conversion: Conversion | None = None,
) -> dict[str, Any]:
    """The invoice as it is from now on. Its number is of a series and a year. One below zero is a
    credit note, and has a number of those."""
    invoice_id = invoice["invoice_id"]
    is_below_zero = invoice["total_cents"] + taxation.tax_cents < 0
    numbers = rows.numbers_of(series, invoice["period"][:4], is_credit_note=is_below_zero)
    standing: dict[str, Any] = dict(rows.STANDING)
    if billed_as is not None:
        standing |= rows.insert_parties(conn, invoice_id, billed_as, conversion, now_us)
    rows.insert_taxes(conn, invoice_id, taxation)
    frozen = {"tax_cents": taxation.tax_cents, "computed_us": now_us}
    number = rows.finalise(conn, invoice_id, numbers, **frozen)
    named = {"status": "finalised", "number": number, "series": numbers}
    issued = {**invoice, **standing, **named, **frozen}
    transfers.post(conn, list(_transfers(issued, taxation, now_us)))
    tell_of_invoice(conn, EventType.INVOICE_ISSUED, issued, now_us)
    paying.settle(conn, issued, by=BY, now_us=now_us)
    return issued | {"paid_cents": payments.paid_cents(conn, invoice_id)}


def take_back(conn: Connection, invoice: Invoice, taxation: Taxation, now_us: int) -> None:
    """Undo what issuing has posted. The invoice keeps its number."""
    transfers.post(conn, [undone(row) for row in _transfers(invoice, taxation, now_us)])
    tell_of_invoice(conn, EventType.INVOICE_VOIDED, invoice, now_us)


def undone(row: Mapping[str, Any]) -> dict[str, Any]:
    """What takes a transfer of an invoice back once that is void."""
    return {
        **row,
        **{"transfer_id": f"{row['transfer_id']}{UNDONE}", "kind": "invoice_void"},
        **{"debit_account": row["credit_account"], "credit_account": row["debit_account"]},
    }


def tax_names(place: int, amount: TaxAmount) -> Iterator[tuple[str, TaxPart]]:
    """Each tax of a treatment with what ends the id of its transfer: its place, and its share of
    several."""
    for share, part in enumerate(amount.parts, start=1):
        yield f"tax:{place}" + (f":{share}" if part.jurisdiction else ""), part


def _transfers(invoice: Invoice, taxation: Taxation, now_us: int) -> Iterator[dict[str, Any]]:
    org, invoice_id = invoice["org"], invoice["invoice_id"]
    owed = receivable(org)
    sold = ONE_OFF_REVENUE if invoice["kind"] == rows.ONE_OFF else unbilled(org)
    moves = [
        ("invoice", "invoice", sold, invoice["subtotal_nanousd"]),
        ("rounding", "rounding", ROUNDING, invoice["rounding_nanousd"]),
    ]
    for place, amount in enumerate(taxation.amounts, start=1):
        for name, part in tax_names(place, amount):
            moves.append((name, "tax", part.account, part.tax_cents * NANOUSD_PER_CENT))
    for name, kind, other, amount in moves:
        if amount:
            debit, credit = (owed, other) if amount > 0 else (other, owed)
            common = {"org": org, "booked_us": now_us, "created_us": now_us}
            yield transfer(f"{invoice_id}:{name}", kind, debit, credit, abs(amount), **common)
