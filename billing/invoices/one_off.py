"""One-off invoices: lines that a person writes, beside those of a month.

Such a draft has no charges of the ledger, so no run writes it anew. Once it is issued, its amount
is booked from `revenue:one_off`, and it is voided, credited and paid like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from sqlalchemy import Connection

from billing.db.engine import Store, take_turns
from billing.invoices import issuing
from billing.invoices import store as rows
from billing.invoices.guards import GUARDS, Guards
from billing.invoices.invoicing import Line, LineKind, compose, line_of_amount
from billing.invoices.months import InvoiceIdentity, invoice_by_id, written
from billing.invoices.result import InvoiceResult
from billing.invoices.store import ONE_OFF, RUN_LOCK, UnknownInvoice
from billing.invoices.voids import WrongInvoiceStatus
from billing.parties import store as parties
from billing.periods import Period, period_at

REVISIONS_FROM = 1001
"""One-off invoices of a month stand behind those of the month itself."""
TOTAL_NANOUSD_MAX = 10**17


class BadItem(ValueError):
    """A line that cannot be: it costs nothing, or the invoice is beyond reason."""


class Item(NamedTuple):
    description: str
    quantity: int
    unit_price_nanousd: int


def draft(store: Store, org: str, items: Sequence[Item], *, now_us: int) -> InvoiceResult:
    """The draft, of the month of now. Raises BadItem."""
    month = period_at(now_us)
    lines = [_line(item, month) for item in items]
    if sum(line.amount_nanousd for line in lines) > TOTAL_NANOUSD_MAX:
        raise BadItem("it is above 100,000,000 USD")
    with store.write() as conn:
        take_turns(conn, RUN_LOCK)
        revision = _next_revision(conn, org, month)
        named = f"{org} {month.name} one-off {revision}"
        invoice_id = f"inv_{sha256(named.encode()).hexdigest()[:24]}"
        identity = InvoiceIdentity(invoice_id, revision, None)
        invoice, line_rows = written(identity, org, month, compose(lines, month), now_us)
        rows.insert_draft(conn, {**invoice, "kind": ONE_OFF, "series": ""}, line_rows, ())
        result = invoice_by_id(conn, invoice_id, now_us)
        assert result is not None
        return result


def issue(
    store: Store, invoice_id: str, *, now_us: int, series: str, guards: Guards = GUARDS
) -> InvoiceResult:
    """Raises UnknownInvoice, and WrongInvoiceStatus for one that is parked."""
    with store.write() as conn:
        take_turns(conn, RUN_LOCK)
        result = invoice_by_id(conn, invoice_id, now_us, guards)
        if result is None:
            raise UnknownInvoice(invoice_id)
        if result.number:
            return result
        if result.parked_because:
            raise WrongInvoiceStatus("; ".join(result.parked_because))
        invoice = result.invoice
        billed_as = parties.billed_as(conn, invoice["org"], invoice["period_end_us"] - 1)
        by = billed_as.seller.series if billed_as else series
        issuing.issue(
            *(conn, invoice, result.taxation, billed_as),
            series=by,
            now_us=now_us,
            conversion=result.conversion,
        )
        issued = invoice_by_id(conn, invoice_id, now_us)
        assert issued is not None
        return issued


def _next_revision(conn: Connection, org: str, month: Period) -> int:
    of_month = rows.find(conn, org, month.name)
    taken = [int(row["revision"]) for row in of_month if row["kind"] == ONE_OFF]
    return max(taken, default=REVISIONS_FROM - 1) + 1


def _line(item: Item, month: Period) -> Line:
    amount = item.quantity * item.unit_price_nanousd
    if amount <= 0:
        raise BadItem(f"{item.description!r} costs nothing")
    return line_of_amount(
        LineKind.ITEM, month, amount, quantity=item.quantity, description=item.description
    )
