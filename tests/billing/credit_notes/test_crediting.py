"""Credit notes on both databases: numbered without gap, booked with their tax, and documents."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from sqlalchemy import text

from billing.credit_notes import store as notes
from billing.credit_notes.crediting import CreditConflict, CreditNoteResult, LineCredit, credit
from billing.credit_notes.note import BadCredit
from billing.db.engine import Store
from billing.documents.document import Document, DocumentKind
from billing.documents.forms.csv_table import rows_of
from billing.documents.forms.e_invoice import Syntax, xml_of
from billing.documents.forms.focus import focus_rows
from billing.documents.note_document import note_document
from billing.invoices.months import invoice_by_id
from billing.invoices.result import InvoiceResult
from billing.invoices.status import InvoiceStatus
from billing.invoices.store import UnknownInvoice
from billing.invoices.voids import WrongInvoiceStatus, void
from billing.parties import store as parties
from billing.payments.paying import list_payments, pay
from billing.payments.payment import Receipt
from tests.billing.documents.rules import complaints
from tests.billing.invoices.test_invoices import (
    IN_NOVEMBER_US,
    IN_OCTOBER_US,
    SEPTEMBER,
    call,
    caught_up,
    holds,
    run,
)
from tests.billing.invoices.test_invoices import book as booked
from tests.billing.taxes.test_tax_rule import SELLER
from tests.billing.taxes.test_taxation import DOMESTIC, GERMAN, accounts, document, used

WORDS = {"reason": "outage of 3 May", "by": "a"}


@pytest.fixture
def store(either_store: Store) -> Store:
    parties.put_seller(either_store, replace(SELLER, address=GERMAN.address), 1)
    parties.put_profile(either_store, GERMAN, 1)
    parties.put_rule(either_store, replace(DOMESTIC, rate_ppm=160_000, to_us=SEPTEMBER.end_us), 1)
    parties.put_rule(either_store, replace(DOMESTIC, rule_id="new", from_us=SEPTEMBER.end_us), 1)
    return either_store


def issued(store: Store) -> InvoiceResult:
    used(store, "req_1", IN_OCTOBER_US)
    caught_up(store, IN_NOVEMBER_US)
    (result,) = run(store, "2026-10")
    return result


def with_two_rates(store: Store) -> InvoiceResult:
    """September's late usage has 16 %."""
    used(store, "req_0", SEPTEMBER.end_us - 1, IN_OCTOBER_US)
    caught_up(store, IN_NOVEMBER_US)
    run(store, "2026-09")
    booked(store, call(store, "req_late", SEPTEMBER.end_us - 1, output=999_999_999))
    return issued(store)


def credited(store: Store, invoice: InvoiceResult, **what: object) -> CreditNoteResult:
    """Under a name of its own, unless it is said."""
    invoice_id = invoice.invoice["invoice_id"]
    with store.read() as conn:
        number = len(notes.find(conn, invoice_id=invoice_id))
    what = {"external_id": f"ticket-{number}"} | WORDS | what
    return credit(store, invoice_id, now_us=IN_NOVEMBER_US, **what)  # type: ignore[arg-type]


def now(store: Store, invoice: InvoiceResult) -> InvoiceResult:
    with store.read() as conn:
        result = invoice_by_id(conn, invoice.invoice["invoice_id"], IN_NOVEMBER_US)
    assert result is not None
    return result


def of_note(store: Store, invoice: InvoiceResult, note: CreditNoteResult) -> Document:
    with store.read() as conn:
        taxes = notes.taxes_of(conn, note.note["note_id"])
    made = note_document(
        note.note, note.number, note.lines, taxes, document(store, now(store, invoice))
    )
    assert made.heading.kind is DocumentKind.CREDIT_NOTE
    assert made.totals.due_cents == made.totals.total_cents == note.total_cents
    for syntax in Syntax:
        assert complaints(xml_of(made, syntax), syntax) == []
    assert sum(int(row["amount_cents"] or 0) for row in rows_of(made) if "amount_cents" in row) == (
        note.total_cents
    )
    billed = sum(round(float(row["BilledCost"]) * 100) for row in focus_rows(made))
    assert billed == -note.total_cents
    return made


def test_same_credit_again_changes_nothing_and_another_of_its_name_is_refused(
    store: Store,
) -> None:
    invoice = issued(store)
    line = max(invoice.lines, key=lambda line: line["amount_nanousd"])["seq"]
    whats: list[dict[str, object]] = [
        {"amount_cents": 300},
        {"lines": [LineCredit(line, amount_cents=100)]},
        {"lines": [LineCredit(line, quantity=1_000_000)]},
        {},
    ]
    for number, what in enumerate(whats):
        first = credited(store, invoice, external_id=f"t{number}", **what)
        assert credited(store, invoice, external_id=f"t{number}", **what) == first
        for other in ({"amount_cents": 1}, {"reason": "another"}):
            with pytest.raises(CreditConflict):
                credited(store, invoice, **what | {"external_id": f"t{number}"} | other)
    assert now(store, invoice).left_cents == 0
    assert holds(store)


def test_credit_takes_tax_back_in_proportion_and_the_rest_to_the_cent(store: Store) -> None:
    invoice = with_two_rates(store)
    assert len(invoice.taxation.amounts) == 2
    first = credited(store, invoice, amount_cents=1_001)
    assert (first.number, first.total_cents) == ("SLU-CN-2026-000001", 1_001)
    assert first.note["tax_cents"] > 0 and len(first.lines) == 2
    made = of_note(store, invoice, first)
    assert made.heading.preceding and made.heading.preceding.number == invoice.number
    assert now(store, invoice).left_cents == invoice.payable_cents - 1_001
    assert holds(store)
    with pytest.raises(BadCredit, match="above what is left"):
        credited(store, invoice, amount_cents=invoice.payable_cents - 1_000)
    rest = credited(store, invoice)
    assert rest.number == "SLU-CN-2026-000002"
    of_note(store, invoice, rest)
    assert now(store, invoice).status is InvoiceStatus.PAID
    after = accounts(store)
    other = run(store, "2026-09")[0]
    assert -after["org:org_1:receivable"] == other.payable_cents
    assert after["tax:s:DE"] == other.taxation.tax_cents
    with pytest.raises(BadCredit):
        credited(store, invoice)
    with pytest.raises(WrongInvoiceStatus):
        void(store, invoice.invoice["invoice_id"], reason="a", by="a", now_us=IN_NOVEMBER_US)
    assert holds(store)


def test_line_is_credited_by_quantity_or_amount_and_never_above_itself(store: Store) -> None:
    invoice = issued(store)
    line = max(invoice.lines, key=lambda each: each["amount_nanousd"])
    seq, quantity = line["seq"], line["quantity"]
    half = credited(store, invoice, lines=[LineCredit(seq, quantity=quantity // 2)])
    made = of_note(store, invoice, half)
    assert made.lines[0].quantity == quantity // 2 and made.lines[0].model == line["model"]
    piece = credited(store, invoice, lines=[LineCredit(seq, amount_cents=100)])
    assert (piece.note["net_cents"], piece.note["tax_cents"]) in ((100, 19), (100, 18), (100, 20))
    of_note(store, invoice, piece)
    for wrong in (
        [LineCredit(seq, quantity=quantity)],
        [LineCredit(seq, quantity=quantity + 1)],
        [LineCredit(seq, amount_cents=-1)],
        [LineCredit(seq, amount_cents=1), LineCredit(seq, amount_cents=1)],
        [LineCredit(999, amount_cents=1)],
    ):
        with pytest.raises(BadCredit):
            credited(store, invoice, lines=wrong)
    with store.read() as conn:
        assert len(notes.find(conn, org="org_1")) == 2, "what is refused leaves nothing"
        numbers = text("SELECT next_number FROM invoice_counter WHERE series = 'SLU-CN-2026'")
        assert conn.execute(numbers).scalar_one() == 3
    assert holds(store)


def test_credit_of_a_paid_invoice_goes_on_account(store: Store) -> None:
    invoice = issued(store)
    receipt = Receipt(
        org="org_1",
        external_id="wire-1",
        amount_cents=invoice.payable_cents,
        received_us=IN_NOVEMBER_US,
        invoice_id=invoice.invoice["invoice_id"],
    )
    pay(store, receipt, by="a", now_us=IN_NOVEMBER_US)
    assert now(store, invoice).status is InvoiceStatus.PAID
    credited(store, invoice, amount_cents=1_190)
    (payment,) = list_payments(store, org="org_1")
    assert payment.on_account_cents == 1_190
    after = now(store, invoice)
    assert (after.left_cents, after.status) == (0, InvoiceStatus.PAID)
    assert holds(store)


def test_draft_void_and_unknown_invoices_are_not_credited(store: Store) -> None:
    used(store, "req_1", IN_OCTOBER_US)
    (draft,) = run(store, "2026-10", now_us=IN_OCTOBER_US)
    with pytest.raises(WrongInvoiceStatus):
        credited(store, draft)
    invoice = issued(store)
    void(store, invoice.invoice["invoice_id"], reason="a", by="a", now_us=IN_NOVEMBER_US)
    with pytest.raises(WrongInvoiceStatus):
        credited(store, invoice)
    with pytest.raises(UnknownInvoice):
        credit(store, "inv_0", external_id="a", now_us=1, **WORDS)
    assert holds(store)
