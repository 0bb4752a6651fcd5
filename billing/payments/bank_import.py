"""Payments from a bank's statement: a row pays the invoice whose number it names, or tops up the
organization that it names behind the word TOP-UP.

A row that bears the name of another organization is left to a person.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from billing.db.engine import Store
from billing.invoices import store as invoices
from billing.invoices.guards import GUARDS, Guards
from billing.parties import store as parties
from billing.payments.bank_file import BankRow, bank_rows, names_another, plain_id, words_of
from billing.payments.paying import NotPayable, PaymentConflict, is_booked, pay
from billing.payments.payment import BadPayment, Receipt, Source
from billing.top_ups.topping_up import top_up

NOTE_CHARS_MAX = 500


@dataclass(frozen=True, slots=True)
class MatchedRow:
    """A row that is a payment or a top-up now; `is_new` unless it was one before. `number` is that
    of its invoice or receipt."""

    row: int
    number: str
    payment: str
    amount_nanousd: int
    applied_nanousd: int
    is_new: bool


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


def import_payments(
    store: Store, text: str, *, by: str, now_us: int, guards: Guards = GUARDS
) -> BankImport:
    """Each row is a payment of its own, and the same row again is the same one. Raises
    BadBankFile."""
    with store.read() as conn:
        names = {org: words_of(name) for org, name in parties.legal_names(conn).items()}
    matched: list[MatchedRow] = []
    unmatched: list[UnmatchedRow] = []
    for row in bank_rows(text):
        try:
            matched.append(_paid(store, row, names, by, now_us, guards))
        except (BadPayment, NotPayable, PaymentConflict) as why:
            words = (row.row, row.text, row.amount, row.currency)
            unmatched.append(UnmatchedRow(*words, str(why)))
    return BankImport(tuple(matched), tuple(unmatched))


def _paid(
    store: Store, row: BankRow, names: Mapping[str, str], by: str, now_us: int, guards: Guards
) -> MatchedRow:
    """`names` has the words of legal names by organization."""
    if row.problem:
        raise BadPayment("csv", row.problem)
    if not row.numbers and row.top_up:
        return _topped_up(store, row, names, by, now_us, guards)
    with store.read() as conn:
        by_number = {name: invoices.by_number(conn, name) for name in row.numbers}
        known = {name: invoice for name, invoice in by_number.items() if invoice is not None}
        if len(known) != 1:
            why = "names several invoices" if known else "names no invoice that is issued"
            raise BadPayment("csv", f"its text {why}")
        ((number, invoice),) = known.items()
        if another := names_another(row, invoice["org"], names):
            raise BadPayment("csv", f"it bears the name of {another}, and {number} is another's")
        receipt = _receipt(row, invoice["org"], invoice["invoice_id"])
        is_new = not is_booked(conn, receipt)
    state = pay(store, receipt, by=by, now_us=now_us)
    payment_id = state.payment["payment_id"]
    amounts = state.amount_nanousd, state.applied_nanousd
    return MatchedRow(row.row, number, payment_id, *amounts, is_new)


def _topped_up(
    store: Store, row: BankRow, names: Mapping[str, str], by: str, now_us: int, guards: Guards
) -> MatchedRow:
    org = next((each for each in names if plain_id(each) == row.top_up), None)
    if org is None:
        raise BadPayment("csv", "it tops up no organization that has a billing profile")
    if another := names_another(row, org, names):
        raise BadPayment("csv", f"it bears the name of {another}, and tops up {org}")
    state, is_new = top_up(store, _receipt(row, org, None), by=by, now_us=now_us, guards=guards)
    return MatchedRow(
        row.row, state.number, state.top_up["top_up_id"], state.amount_nanousd, 0, is_new
    )


def _receipt(row: BankRow, org: str, invoice_id: str | None) -> Receipt:
    return Receipt(
        org=org,
        external_id=f"bank:{row.digest}",
        amount_cents=row.amount_cents,
        received_us=row.received_us,
        source=Source.BANK,
        currency=row.currency,
        note=row.text[:NOTE_CHARS_MAX],
        invoice_id=invoice_id,
    )
