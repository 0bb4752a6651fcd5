"""Credit notes as they are issued: numbered and booked in one transaction.

The net goes from the receivable to `revenue:credited`, and each tax from the receivable back from
the account of those whom it was owed to. Guards law 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, NamedTuple

from sqlalchemy import Connection

from billing.credit_notes import store as rows
from billing.credit_notes.note import (
    BadCredit,
    Creditable,
    CreditedLine,
    CreditedPart,
    of_amount,
    of_lines,
)
from billing.db.engine import Store, take_turns
from billing.dunning.suspension import lift
from billing.invoices import store as invoices
from billing.invoices.issuing import tax_names
from billing.invoices.months import invoice_by_id
from billing.invoices.result import InvoiceResult
from billing.invoices.status import InvoiceStatus
from billing.invoices.store import RUN_LOCK, UnknownInvoice
from billing.invoices.voids import WrongInvoiceStatus
from billing.ledger import store as transfers
from billing.ledger.posting import receivable, transfer
from billing.money import NANOUSD_PER_CENT, whole_cents
from billing.payments import paying

CREDITED = "revenue:credited"
CREDITABLE = (InvoiceStatus.OPEN, InvoiceStatus.OVERDUE, InvoiceStatus.PAID)
MICROSECONDS = 1_000_000


class CreditConflict(Exception):
    """Something else was credited under the same `external_id`."""


class LineCredit(NamedTuple):
    """What to take back of a line: so many of its units, or an amount without tax."""

    seq: int
    quantity: int | None = None
    amount_cents: int | None = None


@dataclass(frozen=True, slots=True)
class CreditNoteResult:
    """A credit note with its lines, and the number of its invoice."""

    note: dict[str, Any]
    lines: list[dict[str, Any]]
    invoice_number: str

    @property
    def number(self) -> str:
        return f"{self.note['series']}-{self.note['number']:06d}"

    @property
    def total_cents(self) -> int:
        return int(self.note["net_cents"] + self.note["tax_cents"])

    @property
    def total_nanousd(self) -> int:
        return self.total_cents * NANOUSD_PER_CENT


def credit(
    store: Store,
    invoice_id: str,
    *,
    external_id: str,
    reason: str,
    by: str,
    now_us: int,
    amount_cents: int | None = None,
    lines: Sequence[LineCredit] = (),
) -> CreditNoteResult:
    """A note over an amount with tax, over lines, or over all that is left. The same again changes
    nothing. Raises UnknownInvoice, WrongInvoiceStatus, BadCredit, CreditConflict."""
    with store.write() as conn:
        take_turns(conn, RUN_LOCK)
        invoice = invoice_by_id(conn, invoice_id, now_us)
        if invoice is None:
            raise UnknownInvoice(invoice_id)
        note_id = _note_id(invoice_id, external_id)
        before = rows.by_id(conn, note_id)
        if before is not None:
            return _again(result_of(conn, before), external_id, reason, amount_cents, lines)
        if invoice.status not in CREDITABLE:
            raise WrongInvoiceStatus(f"it is {invoice.status}")
        parts = creditables(conn, invoice)
        left = invoice.payable_cents - invoice.invoice["noted_cents"]
        if lines:
            credited = _lines(conn, invoice, lines)
            taken = of_lines(parts, credited, left)
        else:
            taken = of_amount(parts, amount_cents, left)
            credited = [CreditedLine(0, part.place, 0, part.base_cents) for part in taken]
        note = _numbered(conn, invoice, taken, note_id, reason=reason, by=by, now_us=now_us)
        rows.insert_note(conn, note, credited, taken)
        transfers.post(conn, list(_transfers(invoice, note, taken, now_us)))
        _free_surplus(conn, invoice, note, by, now_us)
        lift(conn, note["org"], now_us)
        return one(conn, note["note_id"])


def _note_id(invoice_id: str, external_id: str) -> str:
    named = f"{invoice_id}\n{external_id}"
    return f"crn_{sha256(named.encode()).hexdigest()[:24]}"


def _again(
    result: CreditNoteResult,
    external_id: str,
    reason: str,
    amount_cents: int | None,
    lines: Sequence[LineCredit],
) -> CreditNoteResult:
    """Raises CreditConflict."""
    credited = [(row["line_seq"], row["quantity"], row["amount_cents"]) for row in result.lines]
    is_same = result.note["reason"] == reason and amount_cents in (None, result.total_cents)
    if lines:
        is_same &= len(lines) == len(credited) and all(
            row[0] == line.seq and (row[1] == line.quantity or row[2] == line.amount_cents)
            for row, line in zip(credited, lines, strict=True)
        )
    if not is_same:
        raise CreditConflict(f"{external_id!r} is another credit already")
    return result


def _free_surplus(
    conn: Connection, invoice: InvoiceResult, note: dict[str, Any], by: str, now_us: int
) -> None:
    """What was paid and is now too much becomes credit on account, and pays what is open."""
    surplus = note["net_cents"] + note["tax_cents"] - max(0, invoice.left_cents)
    if surplus > 0:
        reason = f"credit note {note['note_id']}"
        paying.free(conn, note["invoice_id"], reason=reason, by=by, now_us=now_us, cents=surplus)
        paying.settle_open(conn, note["org"], by=by, now_us=now_us)


def one(conn: Connection, note_id: str) -> CreditNoteResult:
    """Raises UnknownInvoice."""
    note = rows.by_id(conn, note_id)
    if note is None:
        raise UnknownInvoice(note_id)
    return result_of(conn, note)


def result_of(conn: Connection, note: dict[str, Any]) -> CreditNoteResult:
    invoice = invoices.by_id(conn, note["invoice_id"])
    assert invoice is not None, "a foreign key says so"
    number = f"{invoice['series']}-{invoice['number']:06d}"
    return CreditNoteResult(note, rows.lines_of(conn, note["note_id"]), number)


def creditables(conn: Connection, invoice: InvoiceResult) -> list[Creditable]:
    """What is left of each tax of an invoice; of one without taxes of all of it."""
    before = rows.credited(conn, invoice.invoice["invoice_id"])
    amounts = invoice.taxation.amounts
    if not amounts:
        total = invoice.invoice["total_cents"]
        return [Creditable(0, (0,), total, (0,), *before.get(0, (0, ())))]
    return [
        Creditable(
            *(place, tax.treatment.rates_ppm, tax.base_cents, tax.taxes_cents),
            *before.get(place, (0, ())),
        )
        for place, tax in enumerate(amounts, start=1)
    ]


def _lines(
    conn: Connection, invoice: InvoiceResult, wanted: Sequence[LineCredit]
) -> list[CreditedLine]:
    """Raises BadCredit, also for a line that is named twice."""
    places = invoice.taxation.places
    cents = invoice.taxation.taxed_cents(invoice.lines)
    billed = {
        line["seq"]: (line, cents[line["seq"]]) for line in invoice.lines if line["seq"] in cents
    }
    before = rows.credited_of_lines(conn, invoice.invoice["invoice_id"])
    if len({each.seq for each in wanted}) < len(wanted):
        raise BadCredit("lines", "a line is named twice")
    credited = []
    for each in wanted:
        if each.seq not in billed:
            raise BadCredit("lines", f"it has no line {each.seq} to take back from")
        line, part = billed[each.seq]
        quantity, amount = _of_line(line, part, each)
        left = part - before.get(each.seq, 0)
        if not 0 < amount <= left:
            raise BadCredit("lines", f"line {each.seq}: {amount} cents, {max(left, 0)} are left")
        credited.append(CreditedLine(each.seq, places.get(each.seq, 0), quantity, amount))
    return credited


def _of_line(line: dict[str, Any], cents: int, wanted: LineCredit) -> tuple[int, int]:
    """(quantity, cents) of what is taken back of a line."""
    if wanted.amount_cents is not None:
        return 0, wanted.amount_cents
    quantity = wanted.quantity or 0
    if not 0 < quantity <= line["quantity"]:
        raise BadCredit("lines", f"line {wanted.seq} has {line['quantity']} units")
    if quantity == line["quantity"]:
        return quantity, cents
    return quantity, whole_cents(line["amount_nanousd"] * quantity // line["quantity"])


def _numbered(
    conn: Connection,
    invoice: InvoiceResult,
    taken: Sequence[CreditedPart],
    note_id: str,
    *,
    reason: str,
    by: str,
    now_us: int,
) -> dict[str, Any]:
    prefix = invoice.invoice["series"].rpartition("-")[0]
    year = str(datetime.fromtimestamp(now_us // MICROSECONDS, UTC).year)
    series = invoices.numbers_of(prefix, year, is_credit_note=True)
    return {
        "note_id": note_id,
        "invoice_id": invoice.invoice["invoice_id"],
        "org": invoice.invoice["org"],
        "series": series,
        "number": invoices.next_number(conn, series),
        "reason": reason,
        "net_cents": sum(part.base_cents for part in taken),
        "tax_cents": sum(part.tax_cents for part in taken),
        "created_by": by,
        "created_us": now_us,
    }


def _transfers(
    invoice: InvoiceResult, note: dict[str, Any], taken: Sequence[CreditedPart], now_us: int
) -> Iterator[dict[str, Any]]:
    org, note_id = note["org"], note["note_id"]
    moves = [(f"{note_id}:net", CREDITED, note["net_cents"])]
    cents = {(part.place, n): each for part in taken for n, each in enumerate(part.taxes_cents)}
    for place, amount in enumerate(invoice.taxation.amounts, start=1):
        for n, (name, tax) in enumerate(tax_names(place, amount)):
            moves.append((f"{note_id}:{name}", tax.account, cents.get((place, n), 0)))
    for name, account, cents in moves:
        if cents:
            common = {"org": org, "booked_us": now_us, "created_us": now_us}
            amount = cents * NANOUSD_PER_CENT
            yield transfer(name, "credit_note", account, receivable(org), amount, **common)
