"""Invoices of the ledger as documents, on SQLite and PostgreSQL; what is kept once stays."""

from dataclasses import replace

import pytest

from billing.credits.credit import Category, Grant
from billing.credits.grants import give
from billing.db.engine import Store
from billing.documents import store as documents
from billing.documents.document import Document, Measure
from billing.documents.invoice_document import (
    annexes_of,
    categories_of,
    document_of,
    party_named,
)
from billing.invoices.result import InvoiceResult
from tests.billing.documents.made import SELLER, document, line
from tests.billing.invoices.test_invoices import (
    IN_NOVEMBER_US,
    IN_OCTOBER_US,
    OCTOBER,
    SEPTEMBER,
    book,
    call,
    caught_up,
    run,
)


@pytest.fixture
def store(either_store: Store) -> Store:
    return either_store


def made_of(store: Store, result: InvoiceResult) -> Document:
    invoice = result.invoice
    return document_of(
        result,
        seller=SELLER,
        buyer=party_named("Example Inc."),
        categories=categories_of(store, result.lines),
        annexes=annexes_of(
            store, invoice["org"], invoice["period_start_us"], invoice["period_end_us"]
        ),
    )


def grant(store: Store, grant_id: str, category: Category, amount_nanousd: int) -> None:
    given = Grant(
        grant_id=grant_id,
        org="org_1",
        category=category,
        amount_nanousd=amount_nanousd,
        effective_us=SEPTEMBER.start_us,
        created_us=SEPTEMBER.start_us,
    )
    give(store, given, created_by="a", now_us=SEPTEMBER.start_us)


def test_document_of_an_invoice_sums_to_it_and_its_annexes_to_the_ledger(store: Store) -> None:
    book(store, call(store, "req_1", IN_OCTOBER_US, output=777_777))
    book(store, call(store, "req_2", IN_OCTOBER_US - 1, batch=False))
    caught_up(store, IN_NOVEMBER_US)
    (result,) = run(store, "2026-10")
    made = made_of(store, result)
    assert made.heading.number == result.number
    assert made.totals.due_cents == result.invoice["total_cents"]
    assert made.heading.period_end.isoformat() == "2026-10-31"
    charged = sum(each.amount_nanousd for each in made.lines)
    assert charged == result.invoice["subtotal_nanousd"]
    assert {annex.by for annex in made.annexes} == {"project", "key", "day"}
    for annex in made.annexes:
        assert sum(row.amount_nanousd for row in annex.rows) == charged
        assert sum(row.calls for row in annex.rows) == 2
    assert all(each.unit is not Measure.PIECE for each in made.lines)


def test_promotional_credit_is_a_discount_and_paid_credit_a_payment(store: Store) -> None:
    made_call = call(store, "req_1", IN_OCTOBER_US, output=777_777_777)
    promotional = made_call.amount_nanousd // 3
    grant(store, "grant_promo", Category.PROMOTIONAL, promotional)
    grant(store, "grant_paid", Category.PAID, promotional + 1)
    book(store, made_call)
    caught_up(store, IN_NOVEMBER_US)
    (result,) = run(store, "2026-10")
    made = made_of(store, result)
    (reduction,) = made.reductions
    (payment,) = made.prepayments
    assert (reduction.amount_nanousd, reduction.description) == (
        promotional,
        "promotional credit grant_promo",
    )
    assert "grant_paid" in payment.description and payment.amount_cents > 0
    assert made.totals.due_cents == result.invoice["total_cents"]


def test_what_a_correction_takes_back_has_a_quantity_below_zero(store: Store) -> None:
    book(store, call(store, "req_1", IN_OCTOBER_US, output=999_999))
    book(store, call(store, "req_1", IN_OCTOBER_US, output=11))
    (result,) = run(store, "2026-10", OCTOBER.end_us - 1)
    made = made_of(store, result)
    assert made.heading.is_draft and made.heading.issued is None
    assert made.totals.due_cents == result.invoice["total_cents"]
    for each in made.lines:
        assert each.unit_price_nanousd >= 0 and each.quantity * each.amount_nanousd >= 0


def test_what_is_frozen_and_kept_first_stays(store: Store) -> None:
    made = document([line(1), line(2)])
    changed = replace(made, heading=replace(made.heading, number="SLU-2026-000009"))
    with store.write() as conn:
        assert documents.frozen(conn, "inv_1") is None
        assert documents.freeze(conn, "inv_1", made, 1) == made
        assert documents.freeze(conn, "inv_1", changed, 2) == made
        assert documents.frozen(conn, "inv_1") == made
    with store.write() as conn:
        first = documents.keep(conn, "inv_1", "pdf", b"%PDF one", 3)
        assert documents.keep(conn, "inv_1", "pdf", b"%PDF two", 4) == first
        assert documents.kept(conn, "inv_1", "pdf") == first
        assert first.content == b"%PDF one" and len(first.sha256) == 64
        assert documents.kept(conn, "inv_1", "csv") is None
        same = documents.keep(conn, "inv_2", "pdf", b"%PDF one", 5)
    assert same == first
