"""The credit of invoices below zero: on account once, used once, and gone with a void one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from billing.books.store import receivables
from billing.db.engine import Store, take_turns
from billing.invoices import issuing
from billing.invoices import store as invoices
from billing.invoices.invoicing import LineKind, compose, line_of_amount
from billing.invoices.months import InvoiceIdentity, list_invoices, written
from billing.invoices.result import InvoiceResult
from billing.invoices.store import ONE_OFF, RUN_LOCK, credited_cents
from billing.invoices.voids import WrongInvoiceStatus, void
from billing.payments import paying
from billing.payments.laws import credits_are_given_once, payments_are_accounted_for
from billing.payments.payment import Receipt
from billing.periods import period_at
from billing.statements.laws import statements_are_the_ledger
from billing.statements.store import statement
from billing.taxes.taxation import NO_TAX
from tests.billing.invoices.test_invoices import holds
from tests.billing.statements.test_statements import REFUSALS, SECOND_US, Account
from tests.laws.examples import examples

CENT = 10**7


def issue_below_zero(store: Store, org: str, cents: int, now_us: int, place: int = 0) -> str:
    """As a month is that takes back more than it sells."""
    month, invoice_id = period_at(now_us), f"inv_{org}_{place}"
    line = line_of_amount(LineKind.ITEM, month, -cents * CENT, quantity=-1, description="back")
    with store.write() as conn:
        take_turns(conn, RUN_LOCK)
        identity = InvoiceIdentity(invoice_id, 99_000 - place, None)
        invoice, lines = written(identity, org, month, compose([line], month), now_us)
        invoice |= {"kind": ONE_OFF, "series": ""}
        invoices.insert_draft(conn, invoice, lines, ())
        issuing.issue(conn, invoice, NO_TAX, None, series="SLU", now_us=now_us)
    return invoice_id


class Owing(Account):
    """An organization that has invoices below zero too. Acts fall on the newest invoice, or on an
    older one."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.of_first = self.invoice_id
        self.below_zero: list[str] = []

    def issue_below_zero(self, cents: int = 600) -> str:
        place = len(self.below_zero)
        invoice_id = issue_below_zero(self.store, self.org, cents, self.now_us, place)
        self.below_zero.append(invoice_id)
        return invoice_id

    def void_below_zero(self) -> None:
        if self.below_zero:
            words: dict[str, Any] = {"reason": "a", "by": "a", "now_us": self.now_us}
            void(self.store, self.below_zero[-1], **words)

    def void_first(self) -> None:
        void(self.store, self.of_first, reason="a", by="a", now_us=self.now_us)

    def refund_credit(self) -> None:
        words: dict[str, Any] = {"external_id": f"c-{self.now_us}", "reason": "a", "by": "a"}
        for state in self.credits:
            paying.refund(self.store, state.payment["payment_id"], 90, now_us=self.now_us, **words)

    @property
    def credits(self) -> list[paying.PaymentState]:
        states = paying.list_payments(self.store, org=self.org)
        return [each for each in states if each.payment["source"] == "credit_note"]

    @property
    def results(self) -> list[InvoiceResult]:
        return list_invoices(self.store, now_us=self.now_us, org=self.org)

    def result(self, invoice_id: str) -> InvoiceResult:
        return next(each for each in self.results if each.invoice["invoice_id"] == invoice_id)

    def balance(self, account: str) -> int:
        """In cents, above zero what is owed."""
        total = text("SELECT debits - credits FROM account WHERE code = :code")
        with self.store.read() as conn:
            stands = conn.execute(total, {"code": f"org:{self.org}:{account}"}).scalar()
        return int(stands or 0) // CENT


ACTS: dict[str, Callable[[Owing], Any]] = {
    name: getattr(Owing, name)
    for name in (
        *("issue", "pay", "apply", "refund", "bounce", "credit", "void", "write_off"),
        *("issue_below_zero", "void_below_zero", "void_first", "refund_credit"),
    )
}
OFTEN = ("issue_below_zero", "issue", "void_below_zero")


def test_no_credit_is_used_twice_and_the_ledger_is_what_documents_say(either_store: Store) -> None:
    @settings(
        max_examples=examples(18),
        suppress_health_check=[HealthCheck.nested_given],
        deadline=None,
    )
    @given(st.lists(st.sampled_from([*ACTS, *OFTEN]), min_size=4, max_size=12))
    def law(names: list[str]) -> None:
        owing = Owing(either_store)
        for name in names:
            owing.now_us += SECOND_US
            try:
                ACTS[name](owing)
            except REFUSALS:
                continue
        assert list(_breaks(owing)) == []

    law()


def _breaks(owing: Owing) -> Iterator[str]:
    states = paying.list_payments(owing.store, org=owing.org)
    due = on_account = 0
    for each in owing.results:
        if each.status == "void":
            if (each.paid_nanousd, each.due_nanousd) != (0, 0):
                yield f"void, and paid {each.paid_nanousd}, due {each.due_nanousd}"
            continue
        gone = credited_cents(each.invoice) * CENT
        if each.paid_nanousd + each.due_nanousd + gone != each.total_nanousd:
            yield f"paid, due and credited are not the total of {each.number}"
        if each.due_nanousd < 0:
            yield f"credit of {each.number} is stuck"
        due += each.due_nanousd // CENT
    for state in states:
        parts = state.applied_nanousd + state.refunded_nanousd
        if state.on_account_cents < 0 or parts > state.amount_nanousd:
            yield f"used twice: {state}"
        on_account += state.on_account_cents
    if (owing.balance("receivable"), owing.balance("on_account")) != (due, -on_account):
        yield f"due {due}, on account {on_account}, {owing.balance('receivable')} in the ledger"
    closing = statement(owing.store, owing.org, 0, owing.now_us + 1).closing_cents
    if not closing == due - on_account == owing.owed(owing.now_us + 1):
        yield f"statement closes at {closing}"
    with owing.store.read() as conn:
        for check in (credits_are_given_once, payments_are_accounted_for):
            yield from filter(None, [check(conn).detail])
        yield from filter(None, [statements_are_the_ledger(conn).detail])


@pytest.fixture
def owing(either_store: Store) -> Owing:
    """Owes 1,000 cents."""
    return Owing(either_store)


def test_credit_pays_open_invoices_the_oldest_first_and_later_ones_as_they_are_issued(
    owing: Owing,
) -> None:
    first = owing.invoice_id
    owing.now_us += SECOND_US
    owing.issue()
    second = owing.invoice_id
    owing.now_us += SECOND_US
    below = owing.issue_below_zero(2_300)
    assert [owing.result(each).due_nanousd for each in (first, second, below)] == [0, 0, 0]
    assert owing.result(below).paid_nanousd == -2_300 * CENT
    (given,) = owing.credits
    assert (given.applied_nanousd, given.on_account_cents) == (2_000 * CENT, 300)
    assert (owing.balance("receivable"), owing.balance("on_account")) == (0, -300)
    (row,) = [each for each in receivables(owing.store, owing.now_us) if each.org == owing.org]
    assert (row.due_cents, row.on_account_cents) == (0, 300)
    owing.issue()
    assert owing.result(owing.invoice_id).due_nanousd == 700 * CENT
    told = statement(owing.store, owing.org, 0, owing.now_us + 1)
    assert [each.movement.kind for each in told.entries] == ["invoice"] * 4
    assert told.closing_cents == 700
    assert holds(owing.store)


def test_void_takes_the_credit_back_and_what_it_paid_is_due_again(owing: Owing) -> None:
    first = owing.invoice_id
    below = owing.issue_below_zero(400)
    assert owing.result(first).due_nanousd == 600 * CENT
    for _ in range(2):
        owing.void_below_zero()
        assert owing.result(below).paid_nanousd == owing.result(below).due_nanousd == 0
        assert owing.result(first).due_nanousd == 1_000 * CENT
    assert (owing.balance("receivable"), owing.balance("on_account")) == (1_000, 0)
    assert [each.on_account_cents for each in owing.credits] == [0]
    assert holds(owing.store)


def test_credit_is_refunded_once_and_then_no_void_takes_it_back(owing: Owing) -> None:
    """It is no payment that bounces, either."""
    below = owing.issue_below_zero(1_090)
    (given,) = owing.credits
    with pytest.raises(paying.PaymentConflict, match=r"credit of SLU-CN-.*: void that"):
        words = {"reason": "a", "by": "a"}
        paying.reverse(owing.store, given.payment["payment_id"], **words, now_us=owing.now_us)
    owing.refund_credit()
    with pytest.raises(paying.PaymentConflict, match="0 cents on account"):
        owing.now_us += 1
        owing.refund_credit()
    with pytest.raises(WrongInvoiceStatus, match="was refunded"):
        owing.void_below_zero()
    assert owing.result(below).paid_nanousd == -1_090 * CENT
    assert owing.result(owing.invoice_id).due_nanousd == 0
    told = statement(owing.store, owing.org, 0, owing.now_us + 1)
    assert (told.refunded_nanousd, told.paid_nanousd, told.closing_nanousd) == (90 * CENT, 0, 0)
    assert holds(owing.store)


def test_void_of_an_invoice_leaves_its_credit_to_the_next_one(owing: Owing) -> None:
    owing.issue_below_zero(400)
    owing.void_first()
    assert owing.balance("on_account") == -400
    owing.issue()
    assert owing.result(owing.invoice_id).due_nanousd == 600 * CENT
    assert holds(owing.store)


def test_credit_note_on_a_paid_invoice_pays_what_is_open(owing: Owing) -> None:
    first = owing.invoice_id
    owing.pay()
    owing.pay()
    owing.issue()
    second, owing.invoice_id = owing.invoice_id, first
    assert owing.result(second).due_nanousd == 600 * CENT, "400 were on account"
    owing.credit()
    assert owing.result(first).due_nanousd == 0
    assert owing.result(second).due_nanousd == 450 * CENT
    assert owing.balance("on_account") == 0
    assert holds(owing.store)


def test_payment_may_have_the_number_of_a_credit_note_as_its_external_id(owing: Owing) -> None:
    number = owing.result(owing.issue_below_zero(100)).number
    receipt = Receipt(owing.org, str(number), 50, owing.now_us, invoice_id=owing.invoice_id)
    assert (
        paying.pay(owing.store, receipt, by="a", now_us=owing.now_us).applied_nanousd == 50 * CENT
    )
    assert owing.result(owing.invoice_id).due_nanousd == 850 * CENT
    assert holds(owing.store)


def test_credit_of_an_older_release_goes_on_account_by_apply_balance(
    owing: Owing, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as older:
        older.setattr(issuing.paying, "settle", lambda *_, **__: None)
        below = owing.issue_below_zero(400)
    assert owing.result(below).due_nanousd == -400 * CENT and holds(owing.store)
    for _ in range(2):
        paying.apply_balance(owing.store, below, by="a", now_us=owing.now_us)
        assert owing.result(below).due_nanousd == 0
        assert owing.result(owing.invoice_id).due_nanousd == 600 * CENT
    assert holds(owing.store)
