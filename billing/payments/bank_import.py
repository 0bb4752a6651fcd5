"""Payments from a bank's statement: a row pays the invoice whose number it names.

A row that bears the name of another organization is left to a person.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from billing.db.engine import Store
from billing.invoices import store as invoices
from billing.parties import store as parties
from billing.payments.bank_file import BankRow, bank_rows, names_another, words_of
from billing.payments.paying import (
    NotPayable,
    PaymentConflict,
    PaymentState,
    is_booked,
    pay,
)
from billing.payments.payment import BadPayment, Receipt, Source

NOTE_CHARS_MAX = 500


@dataclass(frozen=True, slots=True)
class MatchedRow:
    """A row that is a payment now; `is_new` unless it was one before."""

    row: int
    number: str
    state: PaymentState
    is_new: bool

    @property
    def payment(self) -> str:
        return str(self.state.payment["payment_id"])

    @property
    def amount_nanousd(self) -> int:
        return self.state.amount_nanousd

    @property
    def applied_nanousd(self) -> int:
        return self.state.applied_nanousd


@dataclass(frozen=True, slots=True)
class UnmatchedRow:
    """A row that a person must look at."""

    row: int
    text: str
    amount: str
    currency: str
    why: str


@dataclass(frozen=True, slots=True)
class BankImport:
    matched: tuple[MatchedRow, ...]
    unmatched: tuple[UnmatchedRow, ...]


def import_payments(store: Store, text: str, *, by: str, now_us: int) -> BankImport:
    """Each row is a payment of its own, and the same row again is the same one. Raises
    BadBankFile."""
    with store.read() as conn:
        names = {org: words_of(name) for org, name in parties.legal_names(conn).items()}
    matched: list[MatchedRow] = []
    unmatched: list[UnmatchedRow] = []
    for row in bank_rows(text):
        try:
            matched.append(_paid(store, row, names, by, now_us))
        except (BadPayment, NotPayable, PaymentConflict) as why:
            words = (row.row, row.text, row.amount, row.currency)
            unmatched.append(UnmatchedRow(*words, str(why)))
    return BankImport(tuple(matched), tuple(unmatched))


def _paid(store: Store, row: BankRow, names: Mapping[str, str], by: str, now_us: int) -> MatchedRow:
    """`names` has the words of legal names by organization."""
    if row.problem:
        raise BadPayment("csv", row.problem)
    with store.read() as conn:
        by_number = {name: invoices.by_number(conn, name) for name in row.numbers}
        known = {name: invoice for name, invoice in by_number.items() if invoice is not None}
        if len(known) != 1:
            why = "names several invoices" if known else "names no invoice that is issued"
            raise BadPayment("csv", f"its text {why}")
        ((number, invoice),) = known.items()
        if another := names_another(row, invoice["org"], names):
            raise BadPayment("csv", f"it bears the name of {another}, and {number} is another's")
        receipt = Receipt(
            org=invoice["org"],
            external_id=f"bank:{row.digest}",
            amount_cents=row.amount_cents,
            received_us=row.received_us,
            source=Source.BANK,
            currency=row.currency,
            note=row.text[:NOTE_CHARS_MAX],
            invoice_id=invoice["invoice_id"],
        )
        is_new = not is_booked(conn, receipt)
    return MatchedRow(row.row, number, pay(store, receipt, by=by, now_us=now_us), is_new)
