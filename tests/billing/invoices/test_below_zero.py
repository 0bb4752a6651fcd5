"""A month that takes back more than it sells: a credit note, with a number of those."""

from __future__ import annotations

import csv
import io
from decimal import Decimal
from typing import Any

import pytest

from billing.credit_notes.crediting import credit
from billing.db.engine import Store
from billing.documents.document import DocumentKind
from billing.documents.forms.e_invoice import Syntax, xml_of
from billing.documents.forms.focus import focus_csv
from billing.documents.forms.printed import page_of
from billing.documents.invoice_document import document_of
from billing.documents.parties import parties_of
from billing.invoices.voids import void
from billing.parties import store as parties
from billing.types import UsageSource
from tests.billing.documents.rules import complaints
from tests.billing.invoices.test_invoices import (
    IN_NOVEMBER_US,
    IN_OCTOBER_US,
    SEPTEMBER,
    book,
    call,
    caught_up,
    holds,
    run,
)
from tests.billing.taxes.test_tax_rule import SELLER
from tests.billing.taxes.test_taxation import DOMESTIC, GERMAN

OUTPUT = 3_456_789_012


@pytest.fixture
def store(either_store: Store) -> Store:
    """With a September whose one call was estimated too high, and an October that knows better."""
    parties.put_seller(either_store, SELLER, 1)
    parties.put_profile(either_store, GERMAN, 1)
    parties.put_rule(either_store, DOMESTIC, 1)
    estimate = {"source": UsageSource.ESTIMATED, "output": OUTPUT}
    at_us = SEPTEMBER.end_us - 1
    book(either_store, call(either_store, "req_1", at_us, **estimate), now_us=IN_OCTOBER_US)
    caught_up(either_store, IN_NOVEMBER_US)
    run(either_store, "2026-09")
    book(either_store, call(either_store, "req_1", at_us, output=9), now_us=IN_OCTOBER_US + 9)
    return either_store


def test_invoice_below_zero_is_a_credit_note_in_every_form(store: Store) -> None:
    (issued,) = run(store, "2026-10")
    assert issued.payable_cents < 0 and issued.taxation.tax_cents < 0
    assert issued.number == "SLU-CN-2026-000001"
    with store.read() as conn:
        named = parties_of(conn, issued.invoice)
    assert named is not None
    made = document_of(
        issued, seller=named.seller, buyer=named.buyer, categories={}, terms=named.terms
    )
    assert made.heading.kind is DocumentKind.CREDIT_NOTE
    assert made.totals.due_cents == -issued.payable_cents > 0
    assert [tax.tax_cents for tax in made.taxes] == [
        -tax.tax_cents for tax in issued.taxation.amounts
    ]
    rows = csv.DictReader(io.StringIO(focus_csv([made]).decode()))
    billed = sum(Decimal(row["BilledCost"]) for row in rows)
    assert billed * 100 == issued.payable_cents
    assert page_of(made, None)["heading"] == "Credit note"
    for syntax in Syntax:
        assert complaints(xml_of(made, syntax), syntax) == []
    assert holds(store)


def test_credit_of_a_month_pays_the_one_that_is_open_and_a_void_takes_it_back(
    store: Store,
) -> None:
    (october,) = run(store, "2026-10")
    (september,) = run(store, "2026-09")
    assert october.paid_nanousd == october.total_nanousd and october.left_cents == 0
    assert september.left_cents == september.payable_cents + october.payable_cents
    void(store, october.invoice["invoice_id"], reason="a", by="a", now_us=IN_NOVEMBER_US)
    (september,) = run(store, "2026-09")
    assert september.left_cents == september.payable_cents
    (again,) = run(store, "2026-10")
    assert again.number == "SLU-CN-2026-000002"
    (september,) = run(store, "2026-09")
    assert september.left_cents == september.payable_cents + again.payable_cents
    assert holds(store)


def test_credit_notes_of_both_kinds_have_numbers_of_one_series(store: Store) -> None:
    (issued,) = run(store, "2026-10")
    assert run(store, "2026-10") == [issued]
    (september,) = run(store, "2026-09")
    words: dict[str, Any] = {"external_id": "a", "reason": "a", "by": "a"}
    of_september = september.invoice["invoice_id"]
    note = credit(store, of_september, amount_cents=100, now_us=IN_NOVEMBER_US, **words)
    assert (issued.number, note.number) == ("SLU-CN-2026-000001", "SLU-CN-2026-000002")
    assert september.number == "SLU-2026-000001"
    assert holds(store)
