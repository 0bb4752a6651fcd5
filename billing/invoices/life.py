"""What a person does with one invoice: preview, hold back, approve, issue, write off.

Each is one transaction, and comes between no run of the same invoice.
"""

from __future__ import annotations

from sqlalchemy import Connection

from billing.db.engine import Store, take_turns
from billing.dunning.suspension import lift
from billing.invoices import one_off, reviews
from billing.invoices import store as rows
from billing.invoices.guards import GUARDS, Guards
from billing.invoices.months import RunTerms, invoice_by_id, run_invoices
from billing.invoices.result import InvoiceResult
from billing.invoices.status import InvoiceStatus
from billing.invoices.store import RUN_LOCK, UnknownInvoice
from billing.invoices.voids import WrongInvoiceStatus
from billing.ledger import store as transfers
from billing.ledger.posting import receivable, transfer
from billing.money import NANOUSD_PER_CENT

BAD_DEBT = "expense:bad_debt"


def hold(
    store: Store, invoice_id: str, *, reason: str, by: str, now_us: int, guards: Guards = GUARDS
) -> InvoiceResult:
    """Keep a draft from being issued until it is approved. Raises UnknownInvoice,
    WrongInvoiceStatus."""
    with store.write() as conn:
        _draft(conn, invoice_id, now_us)
        reviews.hold(conn, invoice_id, reason, by, now_us)
        return _one(conn, invoice_id, now_us, guards)


def approve(
    store: Store, invoice_id: str, *, by: str, now_us: int, guards: Guards = GUARDS
) -> InvoiceResult:
    """Say that the amount of a draft is right, and hold it back no more; the next run issues it.
    Raises UnknownInvoice, WrongInvoiceStatus."""
    with store.write() as conn:
        draft = _draft(conn, invoice_id, now_us)
        reviews.approve(conn, invoice_id, draft.invoice["total_cents"], by, now_us)
        return _one(conn, invoice_id, now_us, guards)


def issue(
    store: Store,
    invoice_id: str,
    *,
    by: str,
    now_us: int,
    series: str,
    guards: Guards = GUARDS,
) -> InvoiceResult:
    """Approve a draft and issue it now, in its grace period too; again changes nothing. Raises
    UnknownInvoice, and WrongInvoiceStatus where it cannot be issued yet."""
    with store.read() as conn:
        before = _one(conn, invoice_id, now_us)
    if before.number:
        return before
    approve(store, invoice_id, by=by, now_us=now_us)
    if before.invoice["kind"] == rows.ONE_OFF:
        return one_off.issue(store, invoice_id, now_us=now_us, series=series, guards=guards)
    org, month = before.invoice["org"], before.invoice["period"]
    terms = RunTerms(now_us, series, guards=guards)
    for result in run_invoices(store, month, org=org, **terms._asdict()):
        if result.number:
            return result
        raise WrongInvoiceStatus("; ".join(result.draft_because))
    raise UnknownInvoice(invoice_id)


def write_off(store: Store, invoice_id: str, *, reason: str, by: str, now_us: int) -> InvoiceResult:
    """Expect no payment any more: what is left becomes a bad debt. Again changes nothing. Raises
    UnknownInvoice, WrongInvoiceStatus."""
    with store.write() as conn:
        take_turns(conn, RUN_LOCK)
        invoice = _one(conn, invoice_id, now_us)
        if invoice.status is InvoiceStatus.UNCOLLECTIBLE:
            return invoice
        if invoice.status not in (InvoiceStatus.OPEN, InvoiceStatus.OVERDUE):
            raise WrongInvoiceStatus(f"it is {invoice.status}")
        left, org = invoice.left_cents, invoice.invoice["org"]
        rows.insert_write_off(conn, invoice_id, left, reason, by, now_us)
        row = transfer(
            *(f"{invoice_id}:write_off", "write_off", BAD_DEBT, receivable(org)),
            left * NANOUSD_PER_CENT,
            **{"org": org, "booked_us": now_us, "created_us": now_us},
        )
        transfers.post(conn, [row])
        lift(conn, org, now_us)
        return _one(conn, invoice_id, now_us)


def _draft(conn: Connection, invoice_id: str, now_us: int) -> InvoiceResult:
    take_turns(conn, RUN_LOCK)
    invoice = _one(conn, invoice_id, now_us)
    if invoice.number:
        raise WrongInvoiceStatus(f"it is issued, as {invoice.number}")
    return invoice


def _one(conn: Connection, invoice_id: str, now_us: int, guards: Guards = GUARDS) -> InvoiceResult:
    invoice = invoice_by_id(conn, invoice_id, now_us, guards)
    if invoice is None:
        raise UnknownInvoice(invoice_id)
    return invoice
