"""Invoices of the least and of the most that there is: one nano-dollar, and ten thousand lines."""

from __future__ import annotations

import csv
import io
from datetime import date
from decimal import Decimal

import pikepdf
import pytest
from msgspec.structs import replace

from billing.db.engine import Store
from billing.documents.document import Document
from billing.documents.forms.csv_table import csv_of
from billing.documents.forms.e_invoice import Syntax, xml_of
from billing.documents.forms.focus import focus_csv
from billing.documents.forms.json_text import value_of
from billing.documents.forms.pdf import pdf_of
from billing.documents.invoice_document import BuyerTerms, document_of
from billing.invoices.result import InvoiceResult
from billing.prices.versions import put_into_force
from tests.billing.conftest import RATES
from tests.billing.documents.made import GERMAN, SELLER, STANDARD
from tests.billing.documents.rules import complaints, schema_errors
from tests.billing.invoices.test_invoices import (
    IN_NOVEMBER_US,
    IN_OCTOBER_US,
    book,
    call,
    caught_up,
    holds,
    run,
)

CALLS, LINES = 2_500, 10_000


@pytest.fixture
def of_many(store: Store) -> Document:
    one = call(store, "req", IN_OCTOBER_US, cached_input=9)
    book(store, *(replace(one, rid=f"req_{n}", project=f"proj_{n}") for n in range(CALLS)))
    result, made = issued(store)
    assert sum(line["kind"] == "usage" for line in result.lines) == len(made.lines) == LINES
    return made


def issued(store: Store) -> tuple[InvoiceResult, Document]:
    caught_up(store, IN_NOVEMBER_US)
    (result,) = run(store, "2026-10")
    assert result.number == "SLU-2026-000001" and run(store, "2026-10") == [result]
    assert holds(store)
    terms = BuyerTerms(due=date(2026, 12, 1))
    parts = {"seller": SELLER, "buyer": GERMAN, "untaxed": STANDARD, "terms": terms}
    return result, document_of(result, categories={}, **parts)


def assert_forms_sum(made: Document) -> None:
    rows = [*csv.DictReader(io.StringIO(csv_of(made).decode(), newline=""))]
    assert sum(int(row["amount_cents"] or 0) for row in rows) == made.totals.total_cents
    billed = csv.DictReader(io.StringIO(focus_csv([made]).decode(), newline=""))
    assert sum(Decimal(row["BilledCost"]) for row in billed) * 100 == made.totals.due_cents
    assert value_of(made)["total_cents"] == made.totals.total_cents


def test_one_nano_dollar_is_an_invoice_of_nothing_that_every_form_can_say(store: Store) -> None:
    rates = [replace(rate, nanousd_per_mtok=1) for rate in RATES]
    put_into_force(store, rates, by="a", now_us=IN_OCTOBER_US, version_id="pv_least")
    least = {"input": 0, "output": 500_001, "price_version": "pv_least"}
    book(store, call(store, "req_1", IN_OCTOBER_US, **least))
    result, made = issued(store)
    assert [line["amount_nanousd"] for line in result.lines] == [1, -1]
    assert (result.payable_cents, result.status) == (0, "paid")
    assert_forms_sum(made)
    assert pdf_of(made).startswith(b"%PDF")
    for syntax in Syntax:
        assert complaints(xml_of(made, syntax), syntax) == []


def test_invoice_of_ten_thousand_lines_has_all_of_them_in_every_table_and_e_invoice(
    of_many: Document,
) -> None:
    assert_forms_sum(of_many)
    lines = {Syntax.CII: b"<ram:AssociatedDocumentLine", Syntax.UBL: b"<cac:InvoiceLine>"}
    for syntax, name in lines.items():
        xml = xml_of(of_many, syntax)
        assert schema_errors(xml, syntax) == [] and xml.count(name) == LINES


@pytest.mark.long
def test_invoice_of_ten_thousand_lines_is_printed(of_many: Document) -> None:
    with pikepdf.open(io.BytesIO(pdf_of(of_many))) as printed:
        assert len(printed.pages) > LINES / 100
