"""Payments in the currency that an invoice shows: booked in USD, settled to the cent."""

from __future__ import annotations

import pytest

from billing.credit_notes.crediting import credit
from billing.currencies.store import put_rate
from billing.db.engine import Store
from billing.invoices.months import list_invoices
from billing.invoices.result import InvoiceResult
from billing.payments.bank_import import import_payments
from billing.payments.paying import (
    PaymentConflict,
    PaymentState,
    list_payments,
    pay,
    refund,
    reverse,
)
from billing.payments.payment import BadPayment, Receipt, Source
from billing.payments.signing_secrets import put_secret
from billing.payments.stripe_paying import book_event
from billing.top_ups.topping_up import top_up
from tests.billing.currencies.test_exchange_rates import rate, sold
from tests.billing.invoices.test_invoices import IN_NOVEMBER_US, IN_OCTOBER_US, holds, run
from tests.billing.payments.test_stripe_event import SECRET, event, signed

WORDS = {"by": "a", "now_us": IN_NOVEMBER_US}
CENT = 10**7


@pytest.fixture
def store(either_store: Store) -> Store:
    return issued(either_store)


def issued(store: Store) -> Store:
    """With a final invoice that shows euros."""
    put_rate(sold(store), rate(0, 925_000_001))
    run(store, "2026-10")
    return store


def one(store: Store) -> InvoiceResult:
    (result,) = list_invoices(store, now_us=IN_NOVEMBER_US)
    return result


def owed(store: Store) -> int:
    """In cents of euros."""
    converted = one(store).converted
    assert converted is not None
    return converted.due_cents


def paid(store: Store, cents: int, name: str, currency: str = "EUR") -> PaymentState:
    invoice_id = one(store).invoice["invoice_id"]
    told = {"currency": currency, "invoice_id": invoice_id}
    return pay(store, Receipt("org_1", name, cents, IN_OCTOBER_US, **told), **WORDS)


def test_parts_of_what_is_shown_pay_the_invoice_and_the_rest_is_on_account(store: Store) -> None:
    whole, payable = owed(store), one(store).payable_cents
    assert 3 < whole < payable
    first = paid(store, 1, "w-1")
    assert (first.payment["amount_cents"], first.payment["currency"]) == (1, "USD")
    assert first.tendered == ("EUR", CENT)
    assert (one(store).status, owed(store)) == ("open", whole - 1)
    assert paid(store, 1, "w-1") == first, "told again"
    for cents, currency in ((2, "EUR"), (1, "USD")):
        with pytest.raises(PaymentConflict):
            paid(store, cents, "w-1", currency)
    paid(store, whole - 3, "w-2")
    last = paid(store, 2 + 1_000, "w-3")
    assert (one(store).status, one(store).left_cents, owed(store)) == ("paid", 0, 0)
    assert last.on_account_cents == 1_081
    assert sum(each.payment["amount_cents"] for each in list_payments(store)) == payable + 1_081
    again = paid(store, 1_000, "w-4")
    assert (again.applied_nanousd, again.on_account_cents) == (0, 1_081)
    assert holds(store)
    given = {"external_id": "r", "reason": "too much", **WORDS}
    assert refund(store, again.payment["payment_id"], None, **given).refunded_nanousd
    reverse(store, last.payment["payment_id"], reason="bounced", **WORDS)
    assert owed(store) == 2 and one(store).left_cents > 0
    assert paid(store, 2, "w-5").on_account_cents == 0 and one(store).status == "paid"
    assert holds(store)


def test_dollars_and_credit_notes_lower_what_is_asked_for_in_the_other_currency(
    sqlite_store: Store,
) -> None:
    store = issued(sqlite_store)
    payable, invoice_id = one(store).payable_cents, one(store).invoice["invoice_id"]
    paid(store, 1_000, "usd", "USD")
    paid(store, 500, "eur")
    credit(store, invoice_id, external_id="t", reason="outage", amount_cents=300, **WORDS)
    rest = one(store).left_cents
    assert rest == payable - 1_000 - 541 - 300
    assert abs(owed(store) - rest * 0.925) <= 1
    assert paid(store, owed(store), "eur-2").on_account_cents == 0
    assert (one(store).status, one(store).left_cents) == ("paid", 0)
    credit(store, invoice_id, external_id="t-2", reason="outage", amount_cents=400, **WORDS)
    assert (one(store).left_cents, owed(store)) == (0, 0)
    assert sum(each.on_account_cents for each in list_payments(store)) == 400
    assert holds(store)


def test_no_other_currency_is_taken(sqlite_store: Store) -> None:
    store = issued(sqlite_store)
    with pytest.raises(BadPayment, match="USD or EUR") as refused:
        paid(store, 100, "w", "CHF")
    assert refused.value.field == "currency"
    money = Receipt("org_1", "w", 100, IN_OCTOBER_US, currency="EUR")
    for book in (pay, top_up):
        with pytest.raises(BadPayment, match="in USD"):
            book(store, money, **WORDS)
    assert list_payments(store) == []


def test_less_than_a_cent_of_a_dollar_is_refused(sqlite_store: Store) -> None:
    put_rate(sold(sqlite_store), rate(0, 10**14))
    run(sqlite_store, "2026-10")
    with pytest.raises(BadPayment, match="less than a cent"):
        paid(sqlite_store, 40_000, "w")
    paid(sqlite_store, owed(sqlite_store), "w")
    assert one(sqlite_store).status == "paid" and holds(sqlite_store)


def test_bank_and_payment_service_tell_euros_alike(sqlite_store: Store) -> None:
    store = issued(sqlite_store)
    number, whole = one(store).number, owed(store)
    text = f"date,amount,currency,text\n2026-10-05,10.00,EUR,{number}\n2026-10-05,1,CHF,{number}"
    told = import_payments(store, text, **WORDS)
    assert [row.amount_nanousd for row in told.matched] == [1_081 * CENT]
    assert [(row.currency, row.why) for row in told.unmatched] == [
        ("CHF", "it is to be in USD or EUR")
    ]
    assert not import_payments(store, text, **WORDS).matched[0].is_new
    assert owed(store) == whole - 1_000
    put_secret(store, "s", SECRET, 1)
    now_s = IN_NOVEMBER_US // 10**6
    meta = {"currency": "eur", "metadata": {"invoice": number}}
    body = event("charge.succeeded", id="ch_1", amount=whole - 1_000, **meta)
    for _ in range(2):
        assert book_event(store, "s", signed(body, now_s), body, now_s) is not None
    assert (one(store).status, owed(store)) == ("paid", 0)
    by_source = [state.payment["source"] for state in list_payments(store)]
    assert sorted(by_source) == [Source.BANK, Source.STRIPE]
    assert holds(store)
