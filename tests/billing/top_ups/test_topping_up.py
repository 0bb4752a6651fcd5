"""Top-ups on both databases: a paid grant and a receipt, both or neither, once by external id."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sqlalchemy import event, text

from billing.credits import grants
from billing.credits.credit import Category, Grant
from billing.db.engine import Store
from billing.documents import store as documents
from billing.documents.document import DocumentKind
from billing.documents.forms.focus import focus_csv
from billing.documents.invoice_document import categories_of, document_of, party_named
from billing.invoices.months import list_invoices
from billing.ledger.audit import numbers_of_others
from billing.parties.store import put_profile, put_rule, put_seller
from billing.payments.bank_import import import_payments
from billing.payments.paying import NotPayable, PaymentConflict, UnknownPayment, pay
from billing.payments.payment import BadPayment, Receipt
from billing.taxes.tax_rule import TaxRule
from billing.top_ups.topping_up import TopUpState, list_top_ups, refund, top_up
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
from tests.billing.invoices.test_runs import Killed
from tests.billing.invoices.test_voids import balance
from tests.billing.taxes.test_tax_rule import BUYER, SELLER

T_US = SEPTEMBER.end_us
CENT = 10**7
TABLES = ("top_up", "credit_grant", "document_file", "transfer", "outbox_event", "invoice_counter")
STANDARD = TaxRule(rule_id="at", category="S", rate_ppm=200_000, from_us=0)


@pytest.fixture
def store(either_store: Store) -> Store:
    """Whose organization org_1 is billed by a seller at a tax of 20 %."""
    put_seller(either_store, SELLER, 1)
    put_profile(either_store, replace(BUYER, org="org_1"), 1)
    put_rule(either_store, STANDARD, 1)
    return either_store


def topped_up(
    store: Store, cents: int, name: str = "w-1", *, org: str = "org_1", now_us: int = T_US
) -> TopUpState:
    return top_up(store, Receipt(org, name, cents, now_us - 9), by="a", now_us=now_us)[0]


def given_back(store: Store, cents: int | None, name: str, now_us: int = T_US) -> TopUpState:
    (state, *_) = list_top_ups(store, org="org_1")
    words = {"external_id": name, "reason": "asked for", "by": "a"}
    return refund(store, state.top_up["top_up_id"], cents, now_us=now_us, **words)


def sizes(store: Store) -> list[int]:
    with store.read() as conn:
        return [conn.execute(text(f"SELECT count(*) FROM {t}")).scalar_one() for t in TABLES]


def test_top_up_is_paid_credit_and_a_receipt_once_whoever_tells_it_at_once(store: Store) -> None:
    with ThreadPoolExecutor(4) as pool:
        states = list(pool.map(lambda _: topped_up(store, 5_000), range(4)))
    assert all(state == states[0] for state in states)
    state = topped_up(store, 700, "w-2")
    assert [each.number for each in (states[0], state)] == [
        "SLU-RC-2026-000001",
        "SLU-RC-2026-000002",
    ]
    granted = grants.every(store, "org_1")
    assert [(each.grant.category, each.left_nanousd) for each in granted] == [
        (Category.PAID, 5_000 * CENT),
        (Category.PAID, 700 * CENT),
    ]
    put_profile(store, replace(BUYER, org="org_1", legal_name="Other"), 2)
    with store.read() as conn:
        receipt = documents.frozen(conn, states[0].top_up["top_up_id"])
    assert receipt is not None and receipt.heading.kind is DocumentKind.RECEIPT
    assert (receipt.heading.seller.name, receipt.heading.buyer.name) == ("Sluice", "Buyer")
    totals = receipt.totals
    assert (totals.total_cents, totals.tax_cents, totals.due_cents) == (5_000, 0, 0)
    assert focus_csv([receipt]).count(b"\n") == 1, "it bills nothing"
    with store.read() as conn:
        revenue = text("SELECT count(*) FROM account WHERE code LIKE 'revenue:%'")
        assert conn.execute(revenue).scalar_one() == 0
    assert holds(store)


def test_what_is_no_top_up_leaves_nothing(store: Store) -> None:
    book(store, call(store, "req_1", SEPTEMBER.end_us - 1, output=50_000_000))
    caught_up(store, IN_OCTOBER_US)
    (invoice,) = run(store, "2026-09")
    paid = Receipt("org_1", "p", 5, 1, invoice_id=invoice.invoice["invoice_id"])
    pay(store, paid, by="a", now_us=IN_OCTOBER_US)
    topped_up(store, 100)
    put_profile(store, replace(BUYER, org="org_2"), 1)
    taken = Grant(
        grant_id=topped_up(store, 1, "w-9").top_up["top_up_id"].replace("top_", "top_x"),
        org="org_2",
        category=Category.PAID,
        amount_nanousd=1,
        effective_us=T_US,
        created_us=T_US,
    )
    grants.give(store, taken, created_by="a", now_us=T_US)
    before = sizes(store)
    right = Receipt("org_1", "w-2", 100, 1)
    for other, error, words in (
        (Receipt("org_1", "w-1", 101, 1), PaymentConflict, "another top-up"),
        (Receipt("org_1", "p", 5, 1), PaymentConflict, "a payment already"),
        (Receipt("org_1", "w-2", 1, 1, currency="EUR"), BadPayment, "in USD"),
        (Receipt("org_1", "w-2", 1, T_US + 1), BadPayment, "to come"),
        (Receipt("org_1", "w-2", 10**12, 1), BadPayment, "can hold"),
        (Receipt("org_3", "w-2", 1, 1), NotPayable, "no billing profile"),
    ):
        with pytest.raises(error, match=words):
            top_up(store, other, by="a", now_us=T_US)
    with pytest.raises(PaymentConflict, match="a top-up already"):
        pay(store, replace_id(paid, "w-1"), by="a", now_us=T_US)
    assert sizes(store) == before
    assert top_up(store, right, by="a", now_us=T_US)[1]
    assert holds(store)


def replace_id(receipt: Receipt, external_id: str) -> Receipt:
    return Receipt(receipt.org, external_id, 100, 1, invoice_id=receipt.invoice_id)


def test_top_up_killed_at_any_statement_leaves_all_of_it_or_nothing(store: Store) -> None:
    left = 0

    def last(*_: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise Killed

    topped_up(store, 1, "w-0")
    before = sizes(store)
    event.listen(store.engine, "before_cursor_execute", last)
    for statement in count(1):
        left = statement
        try:
            topped_up(store, 5_000)
            break
        except Killed:
            left = 0
            assert sizes(store) == before
    left = 0
    event.remove(store.engine, "before_cursor_execute", last)
    grown = [after - was for after, was in zip(sizes(store), before, strict=True)]
    assert statement > 8 and grown == [1, 1, 1, 1, 1, 0]
    with store.read() as conn:
        assert [number for _, number in numbers_of_others(conn)] == [1, 2]
    assert holds(store)


def test_refund_is_of_what_no_call_has_used_and_only_once(store: Store) -> None:
    topped_up(store, 500)
    book(store, call(store, "req_1", IN_OCTOBER_US, output=100_000_000))
    left = list_top_ups(store)[0].left_nanousd
    assert 299 * CENT < left < 300 * CENT, "the call took a bit more than two dollars"
    with pytest.raises(PaymentConflict, match="299 cents"):
        given_back(store, 300, "r-1", IN_NOVEMBER_US)
    assert given_back(store, 100, "r-1", IN_NOVEMBER_US).refunded_nanousd == 100 * CENT
    assert given_back(store, 100, "r-1", IN_NOVEMBER_US).refunded_nanousd == 100 * CENT
    with pytest.raises(PaymentConflict, match="another refund"):
        given_back(store, 101, "r-1", IN_NOVEMBER_US)
    last = given_back(store, None, "r-2", IN_NOVEMBER_US)
    assert last.left_nanousd == left - 299 * CENT
    with pytest.raises(PaymentConflict):
        given_back(store, None, "r-3", IN_NOVEMBER_US)
    with pytest.raises(UnknownPayment):
        refund(store, "top_0", None, external_id="a", reason="a", by="a", now_us=T_US)
    assert holds(store)


def test_void_grant_is_not_given_back_twice(store: Store) -> None:
    state = topped_up(store, 500)
    grants.void(store, state.top_up["top_up_id"], voided_by="a", now_us=T_US)
    with pytest.raises(PaymentConflict, match="has ended"):
        given_back(store, None, "r-1", T_US)
    caught_up(store, IN_NOVEMBER_US)
    assert grants.book_ends(store, IN_NOVEMBER_US) == 1
    assert list_top_ups(store)[0].left_nanousd == 0
    assert holds(store)


def test_bank_row_tops_up_the_organization_that_it_names(store: Store) -> None:
    put_profile(store, replace(BUYER, org="org_2", legal_name="Wharf Ltd"), 1)
    lines = [
        "date,amount,currency,text,payer",
        "2026-10-01,10.00,USD,TOP-UP org_1,Buyer",
        "2026-10-01,20.00,USD,thanks topup ORG 1 (Reed),",
        "2026-10-01,30.00,USD,TOP-UP org_9,",
        "2026-10-01,40.00,USD,TOP-UP org_1,Wharf Ltd",
        "2026-10-01,50.00,EUR,TOP-UP org_1,",
        "2026-10-01,60.00,USD,TOP-UP org_1 for SLU-2026-000009,",
    ]
    told = import_payments(store, "\n".join(lines), by="a", now_us=IN_OCTOBER_US)
    assert [(row.row, row.number, row.is_new) for row in told.matched] == [
        (2, "SLU-RC-2026-000001", True),
        (3, "SLU-RC-2026-000002", True),
    ]
    assert [(row.row, row.why) for row in told.unmatched] == [
        (4, "it tops up no organization that has a billing profile"),
        (5, "it bears the name of org_2, and tops up org_1"),
        (6, "it is to be in USD"),
        (7, "its text names no invoice that is issued"),
    ]
    again = import_payments(store, "\n".join(lines), by="a", now_us=IN_OCTOBER_US)
    assert not any(row.is_new for row in again.matched)
    amounts = sorted(each.amount_nanousd for each in list_top_ups(store))
    assert amounts == [1_000 * CENT, 2_000 * CENT]
    assert holds(store)


def test_paid_credit_lowers_what_is_due_and_promotional_credit_what_is_taxed(store: Store) -> None:
    """A month of 3 dollars: 1 is promotional, 1.50 was topped up, and 0.50 is to be paid."""
    promotional = Grant(
        grant_id="promo",
        org="org_1",
        category=Category.PROMOTIONAL,
        amount_nanousd=100 * CENT,
        effective_us=T_US,
        created_us=T_US,
    )
    grants.give(store, promotional, created_by="a", now_us=T_US)
    topped = topped_up(store, 150).top_up["top_up_id"]
    book(store, call(store, "req_1", IN_OCTOBER_US, output=150_000_000))
    caught_up(store, IN_NOVEMBER_US)
    (invoice,) = run(store, "2026-10")
    parties = {"seller": party_named("s"), "buyer": party_named("b")}
    document = document_of(invoice, **parties, categories=categories_of(store, invoice.lines))
    totals = document.totals
    assert (totals.lines_cents, totals.reductions_cents, totals.net_cents) == (300, 100, 200)
    assert (totals.tax_cents, totals.total_cents, totals.paid_cents) == (40, 240, 150)
    assert totals.due_cents == 90 == invoice.payable_cents
    assert [each.description for each in document.reductions] == ["promotional credit promo"]
    assert [each.description for each in document.prepayments] == [f"paid credit {topped}"]
    assert balance(store, "receivable") == 90 * CENT
    assert sum(balance(store, f"grant:{each}") for each in ("promo", topped)) == 0
    assert holds(store)


class Customer:
    """An organization that tops up, calls and wants money back."""

    names = count(10)

    def __init__(self, store: Store) -> None:
        self.store = store
        self.org = f"org_{next(self.names)}"
        self.now_us = IN_OCTOBER_US
        put_profile(store, replace(BUYER, org=self.org), 1)

    def come(self, size: int) -> None:
        topped_up(self.store, size, str(size), org=self.org, now_us=self.now_us)

    def call(self, size: int) -> None:
        rid = f"req_{self.org}_{self.now_us}"
        made = call(self.store, rid, self.now_us, org=self.org, output=size * 500_000)
        book(self.store, made, now_us=self.now_us)

    def back(self, size: int) -> None:
        for state in list_top_ups(self.store, org=self.org):
            words = {"external_id": str(size), "reason": "a", "by": "a"}
            refund(self.store, state.top_up["top_up_id"], size, now_us=self.now_us, **words)

    def void(self, size: int) -> None:
        for state in list_top_ups(self.store, org=self.org)[:1]:
            name = state.top_up["top_up_id"]
            grants.void(self.store, name, voided_by="a", now_us=self.now_us)


ACTS: tuple[Callable[[Customer, int], None], ...] = (
    Customer.come,
    Customer.call,
    Customer.back,
    Customer.void,
)


def test_paid_grants_are_receipts_whatever_happens_to_them(store: Store) -> None:
    @settings(max_examples=6, suppress_health_check=[HealthCheck.nested_given], deadline=None)
    @given(st.lists(st.tuples(st.sampled_from(ACTS), st.integers(1, 300)), max_size=10))
    def law(acts: list[tuple[Callable[[Customer, int], None], int]]) -> None:
        customer = Customer(store)
        for act, size in acts:
            customer.now_us += 1_000_000
            try:
                act(customer, size)
            except (PaymentConflict, grants.GrantConflict):
                continue
        paid = [each.grant for each in grants.every(store, customer.org)]
        with store.read() as conn:
            receipts = [documents.frozen(conn, grant.grant_id) for grant in paid]
        assert [grant.amount_nanousd // CENT for grant in paid] == [
            receipt.totals.total_cents for receipt in receipts if receipt
        ]
        for state in list_top_ups(store, org=customer.org):
            assert 0 <= state.left_nanousd <= state.amount_nanousd - state.refunded_nanousd

    law()
    assert holds(store)
    assert list_invoices(store, now_us=IN_NOVEMBER_US) == []
