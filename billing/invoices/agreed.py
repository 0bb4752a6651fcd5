"""What the terms of an organization add to its invoices: lines, and a transfer for each.

An invoice has of a month what the terms give for all its charges so far, less what other invoices
have of it. So late usage moves the price of its own month. A transfer is booked with the number of
its invoice, and one that undoes it when the invoice is voided. Guards law 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from billing.charges import store as charges
from billing.charges.sums import Cell, Sums
from billing.credits import store as credits
from billing.documents.descriptions import description_of_term
from billing.invoices import store as rows
from billing.invoices.invoicing import Line, LineKind, line_of_amount
from billing.invoices.issuing import undone
from billing.ledger.posting import transfer, unbilled
from billing.periods import Period, period_at
from billing.terms.adjustments import MonthCharges, Part, Used, adjustments
from billing.terms.store import with_minimum
from billing.terms.term import Term, in_month

ACCOUNTS = {
    LineKind.TIERS: "revenue:tiers",
    LineKind.ALLOWANCE: "revenue:allowances",
    LineKind.DISCOUNT: "revenue:discounts",
    LineKind.MINIMUM: "revenue:minimums",
}
"""Where each kind of term is booked against what is unbilled."""


def orgs(conn: Connection, month: Period) -> list[str]:
    """Organizations that may have an invoice of a month."""
    return sorted({*charges.orgs(conn, month.end_us), *with_minimum(conn, month.name)})


def lines(
    conn: Connection,
    org: str,
    months: Sequence[int],
    terms: Sequence[Term],
    *,
    but: str,
    language: str = "en",
) -> tuple[Line, ...]:
    """What terms add to months that an invoice has charges of, in the language of its buyer. `but`
    is that invoice."""
    return tuple(
        line
        for month_us in months
        for line in _lines(conn, org, period_at(month_us), terms, but, language)
    )


def are_as_stored(conn: Connection, invoice_id: str, lines: Sequence[Line]) -> bool:
    """Whether the invoice has these lines of terms already."""
    stored = [
        (
            row["kind"],
            row["service_start_us"],
            row["term_id"],
            row["description"],
            row["amount_nanousd"],
        )
        for row in rows.lines(conn, invoice_id)
        if row["kind"] in rows.OF_TERMS
    ]
    composed = [
        (each.kind, each.service.start_us, each.term_id, each.description, each.amount_nanousd)
        for each in lines
    ]
    return sorted(stored) == sorted(composed)


def booked(
    invoice: Mapping[str, Any], lines: Sequence[Mapping[str, Any]], now_us: int
) -> list[dict[str, Any]]:
    """The transfers of an invoice's lines of terms."""
    return [_transfer(invoice, line, now_us) for line in lines if line["kind"] in rows.OF_TERMS]


def taken_back(
    invoice: Mapping[str, Any], lines: Sequence[Mapping[str, Any]], now_us: int
) -> list[dict[str, Any]]:
    """What undoes them, once the invoice is void."""
    return [undone(row) for row in booked(invoice, lines, now_us)]


def transfer_id(invoice_id: str, line: Mapping[str, Any]) -> str:
    """Of the transfer of a line of terms."""
    return f"{invoice_id}:{line['seq']}:{line['kind']}"


def _transfer(invoice: Mapping[str, Any], line: Mapping[str, Any], now_us: int) -> dict[str, Any]:
    org, amount = invoice["org"], line["amount_nanousd"]
    sides = (unbilled(org), ACCOUNTS[LineKind(line["kind"])])
    debit, credit = sides if amount > 0 else sides[::-1]
    return transfer(
        transfer_id(invoice["invoice_id"], line),
        line["kind"],
        debit,
        credit,
        abs(amount),
        org=org,
        booked_us=now_us,
        created_us=now_us,
    )


def _lines(
    conn: Connection, org: str, month: Period, terms: Sequence[Term], but: str, language: str
) -> Iterator[Line]:
    billed = rows.of_terms(conn, org, month.start_us, but)
    held = in_month(terms, month.name)
    if not held and not billed:
        return
    names = {term.term_id: description_of_term(term, language) for term in held}
    due = {
        (each.kind.value, each.term.term_id): each.amount_nanousd
        for each in adjustments(month_charges(conn, org, month.start_us), held)
    }
    for kind, term_id in sorted({*due, *billed}):
        amount = due.get((kind, term_id), 0) - billed.get((kind, term_id), 0)
        if amount:
            description = f"{names.get(term_id, term_id)}, {month.name}"
            yield line_of_amount(
                *(LineKind(kind), month, amount),
                transfers=1,
                term_id=term_id,
                description=description,
            )


def month_charges(conn: Connection, org: str, month_us: int) -> MonthCharges:
    """All charges of a month, whichever invoice has them."""
    sums = charges.sums_of(conn, org, month_us)
    grants = {cell[_GRANT] for cell in sums if _is_credit(cell)}
    paid = credits.paid(conn, grants)
    of_credit = {cell: -amount for cell, (_, amount, _) in sums.items() if _is_credit(cell)}
    of_paid = sum(amount for cell, amount in of_credit.items() if cell[_GRANT] in paid)
    used = tuple(_used(cell, each) for cell, each in sums.items() if not _is_credit(cell))
    return MonthCharges(used, of_paid, sum(of_credit.values()) - of_paid)


_KIND, _GRANT = 2, 10
"""Places of a cell."""


def _is_credit(cell: Cell) -> bool:
    return bool(cell[_KIND] == LineKind.CREDIT)


def _used(cell: Cell, sums: Sums) -> Used:
    _, _, _, _, model, tier, _, component, *_ = cell
    return Used(Part(model, tier, component), sums[0], sums[1])
