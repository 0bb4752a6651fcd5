"""Payments on both databases: each once, in parts, above what is due, given back and taken back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace
from sqlalchemy import text

from billing.db.engine import Store
from billing.invoices.months import list_invoices
from billing.invoices.result import InvoiceResult
from billing.invoices.voids import void
from billing.parties.store import put_profile, put_seller
from billing.payments.bank_import import import_payments
from billing.payments.paying import (
    NotPayable,
    PaymentConflict,
    PaymentState,
    UnknownPayment,
    apply_balance,
    list_payments,
    pay,
    refund,
    reverse,
)
from billing.payments.payment import BadPayment, Receipt
from billing.periods import period
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
from tests.billing.invoices.test_voids import balance
from tests.billing.taxes.test_tax_rule import BUYER, SELLER

NOW_US = IN_NOVEMBER_US


@pytest.fixture
def store(either_store: Store) -> Store:
    """With final invoices of September, of 100 cents, and of October, of 200."""
    book(either_store, call(either_store, "req_1", SEPTEMBER.end_us - 1, output=50_000_000))
    book(either_store, call(either_store, "req_2", IN_OCTOBER_US, output=100_000_000))
    caught_up(either_store, IN_NOVEMBER_US)
    run(either_store, "2026-09")
    run(either_store, "2026-10")
    return either_store


def invoices(store: Store) -> tuple[InvoiceResult, InvoiceResult]:
    first, second = list_invoices(store, now_us=NOW_US)[:2]
    return first, second


def paid(store: Store, result: InvoiceResult, cents: int, name: str = "w-1") -> PaymentState:
    return pay(store, receipt(result, cents, name), by="a", now_us=NOW_US)


def receipt(result: InvoiceResult, cents: int, name: str, currency: str = "USD") -> Receipt:
    return Receipt(
        org="org_1",
        external_id=name,
        amount_cents=cents,
        received_us=IN_OCTOBER_US,
        currency=currency,
        invoice_id=result.invoice["invoice_id"],
    )


def cents(store: Store) -> list[tuple[int, int]]:
    """(paid, due) of the two invoices."""
    both = [(r.paid_nanousd, r.due_nanousd) for r in invoices(store)]
    return [(paid // 10**7, due // 10**7) for paid, due in both]


def test_parts_then_more_than_is_due_pay_the_next_invoice(store: Store) -> None:
    first, second = invoices(store)
    a, b = first.invoice["total_cents"], second.invoice["total_cents"]
    assert (a, b) == (100, 200)
    paid(store, first, 30)
    assert cents(store) == [(30, 70), (0, b)]
    over = paid(store, first, 170, "w-2")
    assert (over.applied_nanousd, over.on_account_cents) == (70 * 10**7, 100)
    assert cents(store) == [(100, 0), (0, b)]
    assert balance(store, "on_account") == -100 * 10**7
    apply_balance(store, second.invoice["invoice_id"], by="a", now_us=NOW_US)
    assert cents(store) == [(100, 0), (100, 100)]
    assert (balance(store, "receivable"), balance(store, "on_account")) == (100 * 10**7, 0)
    assert holds(store)


def test_balance_pays_the_next_invoice_when_it_is_issued_the_oldest_first(store: Store) -> None:
    """Never more than is due, and told as paid."""
    first, second = invoices(store)
    paid(store, first, 150)
    paid(store, second, 450, "w-2")
    book(store, call(store, "req_3", IN_NOVEMBER_US, output=130_000_000))
    later_us = period("2026-11").end_us + 3_600_000_000
    caught_up(store, later_us)
    (draft,) = run(store, "2026-11")
    assert (draft.number, draft.paid_nanousd) == (None, 0), "a draft takes nothing"
    (third,) = run(store, "2026-11", later_us)
    (again,) = list_invoices(store, now_us=later_us, month="2026-11")
    assert third.invoice["total_cents"] == 260
    for each in (third, again):
        assert (each.status, each.paid_nanousd, each.due_nanousd) == ("paid", 260 * 10**7, 0)
    states = list_payments(store, org="org_1")
    assert {s.payment["external_id"]: s.on_account_cents for s in states} == {"w-1": 0, "w-2": 40}
    assert balance(store, "on_account") == -40 * 10**7
    with store.read() as conn:
        told = text("SELECT count(*) FROM outbox_event WHERE type = 'invoice.paid'")
        assert conn.execute(told).scalar_one() == 3
    assert holds(store)


def test_the_same_payment_is_booked_once_whoever_tells_it_at_once(store: Store) -> None:
    first, second = invoices(store)
    with ThreadPoolExecutor(4) as pool:
        states = list(pool.map(lambda _: paid(store, first, 60), range(4)))
    assert all(state == states[0] for state in states)
    assert cents(store)[0] == (60, 40)
    for other in (receipt(first, 61, "w-1"), receipt(second, 60, "w-1")):
        with pytest.raises(PaymentConflict):
            pay(store, other, by="a", now_us=NOW_US)
    assert holds(store)


def test_what_cannot_be_paid_leaves_nothing(store: Store) -> None:
    first, _ = invoices(store)
    book(store, call(store, "req_3", IN_NOVEMBER_US))
    (draft,) = run(store, "2026-11")
    with pytest.raises(BadPayment, match="to be in USD"):
        pay(store, receipt(first, 1, "w", "EUR"), by="a", now_us=NOW_US)
    with pytest.raises(BadPayment, match="to come"):
        pay(store, receipt(first, 1, "w"), by="a", now_us=IN_OCTOBER_US - 1)
    with pytest.raises(NotPayable, match="draft"):
        paid(store, draft, 1)
    void(store, first.invoice["invoice_id"], reason="a", by="a", now_us=NOW_US)
    with pytest.raises(NotPayable, match="void"):
        paid(store, first, 1)
    with pytest.raises(UnknownPayment):
        reverse(store, "pay_0", reason="a", by="a", now_us=NOW_US)
    assert cents(store)[0] == (0, 0)
    assert holds(store)


def test_a_void_invoice_gives_its_payment_back_on_account(store: Store) -> None:
    first, second = invoices(store)
    paid(store, first, 100)
    void(store, first.invoice["invoice_id"], reason="a", by="a", now_us=NOW_US)
    assert balance(store, "on_account") == -100 * 10**7
    apply_balance(store, second.invoice["invoice_id"], by="a", now_us=NOW_US)
    assert cents(store) == [(0, 0), (100, 100)]
    assert holds(store)


def test_a_refund_takes_no_more_than_is_on_account_and_only_once(store: Store) -> None:
    first, _ = invoices(store)
    payment_id = paid(store, first, 150).payment["payment_id"]

    def back(count: int | None, name: str) -> PaymentState:
        words = {"external_id": name, "reason": "twice", "by": "a"}
        return refund(store, payment_id, count, **words, now_us=NOW_US)

    assert back(20, "r-1").on_account_cents == 30
    assert back(20, "r-1").on_account_cents == 30
    for count, name in ((31, "r-2"), (21, "r-1")):
        with pytest.raises(PaymentConflict):
            back(count, name)
    assert back(None, "r-3").refunded_nanousd == 50 * 10**7
    with pytest.raises(PaymentConflict):
        back(None, "r-4")
    assert cents(store)[0] == (100, 0)
    assert holds(store)


def test_a_payment_that_did_not_hold_makes_its_invoices_due_again(store: Store) -> None:
    first, second = invoices(store)
    payment_id = paid(store, first, 150).payment["payment_id"]
    apply_balance(store, second.invoice["invoice_id"], by="a", now_us=NOW_US)
    assert cents(store) == [(100, 0), (50, 150)]
    once = reverse(store, payment_id, reason="bounced", by="a", now_us=NOW_US)
    assert once.is_reversed and once.on_account_cents == once.applied_nanousd == 0
    assert reverse(store, payment_id, reason="bounced", by="a", now_us=NOW_US) == once
    assert cents(store) == [(0, 100), (0, 200)]
    assert balance(store, "receivable") == 300 * 10**7
    assert holds(store)


def test_a_bank_file_pays_by_number_once_and_lists_what_it_cannot(store: Store) -> None:
    first, second = invoices(store)
    lines = [
        "date,amount,currency,text,id",
        f"2026-11-01,1.00,USD,Payment {first.number} thanks,1",
        f"2026-11-01,2.50,USD,{second.number},2",
        "2026-11-01,9.99,USD,no number,3",
        "2026-11-01,9.99,USD,SLU-2026-000099,4",
        f"2026-11-01,1.00,EUR,{first.number},5",
        f"2026-11-01,1.00,USD,{first.number} and {second.number},6",
        f"2026-11-01,-1.00,USD,{first.number},7",
        f"2999-11-05,1.00,USD,{first.number},8",
    ]
    told = import_payments(store, "\n".join(lines), by="a", now_us=NOW_US)
    assert [(row.row, row.number, row.is_new) for row in told.matched] == [
        (2, first.number, True),
        (3, second.number, True),
    ]
    assert [(row.row, row.why) for row in told.unmatched] == [
        (4, "its text names no invoice that is issued"),
        (5, "its text names no invoice that is issued"),
        (6, "it is to be in USD"),
        (7, "its text names several invoices"),
        (8, "no money came"),
        (9, "it is still to come"),
    ]
    again = import_payments(store, "\n".join(lines), by="a", now_us=NOW_US)
    assert not any(row.is_new for row in again.matched)
    assert cents(store) == [(100, 0), (200, 0)]
    assert balance(store, "on_account") == -50 * 10**7
    assert holds(store)


@pytest.mark.parametrize(
    ("text", "payer", "is_booked"),
    [
        ("{number}", "", True),
        ("{number}", "Reed & Sons GmbH", True),
        ("{number} from REED & sons gmbh, Berlin", "", True),
        ("{number}", "Wharf, Ltd.", False),
        ("wharf ltd pays {number}", "", False),
        ("{number} wharfside ltd", "", True),
        ("{number}", "WHARF LTD for Reed & Sons GmbH", True),
        ("Wharf Ltd {number}", "Somebody", True),
    ],
)
def test_row_that_bears_the_name_of_another_is_left_to_a_person(
    store: Store, text: str, payer: str, is_booked: bool
) -> None:
    put_seller(store, SELLER, 1)
    for org, name in (("org_1", "Reed & Sons GmbH"), ("org_2", "Wharf Ltd")):
        put_profile(store, replace(BUYER, org=org, legal_name=name), 1)
    first, _ = invoices(store)
    cells = f'2026-11-01,1.00,"{text.format(number=first.number)}","{payer}"'
    told = import_payments(store, f"date,amount,text,payer\n{cells}", by="a", now_us=NOW_US)
    assert len(told.matched) == is_booked, told
    assert [row.why for row in told.unmatched] == [
        f"it bears the name of org_2, and {first.number} is another's"
    ] * (not is_booked)
    assert cents(store)[0] == ((100, 0) if is_booked else (0, 100))


def test_payer_does_not_change_which_row_it_is(store: Store) -> None:
    first, _ = invoices(store)
    for head, end in (("", ""), (",payer", ",Reed")):
        told = import_payments(
            store,
            f"date,amount,text{head}\n2026-11-01,0.40,{first.number}{end}",
            by="a",
            now_us=NOW_US,
        )
        assert [row.is_new for row in told.matched] == [not head]
    assert cents(store)[0] == (40, 60)


def test_balance_is_applied_once_however_often_it_is_asked(store: Store) -> None:
    first, second = invoices(store)
    paid(store, first, 150)
    for _ in range(3):
        apply_balance(store, second.invoice["invoice_id"], by="a", now_us=NOW_US)
    assert cents(store) == [(100, 0), (50, 150)]
    assert balance(store, "on_account") == 0
    assert holds(store)
