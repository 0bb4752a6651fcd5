"""Statements are the ledger at every instant, whatever was issued, paid and taken back."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from billing.credit_notes.crediting import credit
from billing.db.engine import Store
from billing.invoices import life, one_off
from billing.invoices.months import list_invoices
from billing.invoices.store import credited_cents
from billing.invoices.voids import WrongInvoiceStatus, void
from billing.payments import paying
from billing.payments.payment import Receipt
from billing.statements import store as statements
from billing.statements.laws import statements_are_the_ledger
from billing.statements.statement import Movement, rows_of_statement, statement_of
from billing.statements.store import TooManyEntries, statement
from tests.billing.invoices.test_invoices import IN_NOVEMBER_US

T_US = IN_NOVEMBER_US
SECOND_US = 1_000_000
ORGS = count()


class Account:
    """One organization with an issued invoice of 1,000 cents, and what may happen to it."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.org = f"org_{next(ORGS)}"
        self.now_us = T_US
        self.payments: list[str] = []
        self.issue()

    def issue(self) -> None:
        item = [one_off.Item("work", 1, 10_000_000_000)]
        made = one_off.draft(self.store, self.org, item, now_us=self.now_us)
        self.invoice_id = made.invoice["invoice_id"]
        words: dict[str, Any] = {"series": "SLU", "by": "a", "now_us": self.now_us}
        life.issue(self.store, self.invoice_id, **words)

    def pay(self) -> None:
        name = f"w-{len(self.payments)}"
        receipt = Receipt(self.org, name, 700, T_US - 9, invoice_id=self.invoice_id)
        state = paying.pay(self.store, receipt, by="a", now_us=self.now_us)
        self.payments.append(state.payment["payment_id"])

    def apply(self) -> None:
        paying.apply_balance(self.store, self.invoice_id, by="a", now_us=self.now_us)

    def refund(self) -> None:
        words: dict[str, Any] = {"external_id": f"r-{self.now_us}", "reason": "a", "by": "a"}
        if self.payments:
            paying.refund(self.store, self.payments[-1], None, now_us=self.now_us, **words)

    def bounce(self) -> None:
        if self.payments:
            words: dict[str, Any] = {"reason": "a", "by": "a", "now_us": self.now_us}
            paying.reverse(self.store, self.payments[-1], **words)

    def credit(self) -> None:
        words: dict[str, Any] = {"external_id": str(self.now_us), "reason": "a", "by": "a"}
        credit(self.store, self.invoice_id, amount_cents=150, now_us=self.now_us, **words)

    def void(self) -> None:
        void(self.store, self.invoice_id, reason="a", by="a", now_us=self.now_us)

    def write_off(self) -> None:
        life.write_off(self.store, self.invoice_id, reason="a", by="a", now_us=self.now_us)

    def owed(self, before_us: int) -> int:
        """By the transfers of the ledger."""
        moved = text(
            "SELECT coalesce(sum(CASE WHEN debit_account IN (:a, :b) THEN amount_nanousd ELSE 0 END"
            " - CASE WHEN credit_account IN (:a, :b) THEN amount_nanousd ELSE 0 END), 0)"
            " FROM transfer WHERE org = :org AND created_us < :at"
        )
        names = {"a": f"org:{self.org}:receivable", "b": f"org:{self.org}:on_account"}
        with self.store.read() as conn:
            found = conn.execute(moved, {**names, "org": self.org, "at": before_us})
            return int(found.scalar_one()) // 10**7


ACTS: dict[str, Callable[[Account], None]] = {
    name: getattr(Account, name)
    for name in ("issue", "pay", "apply", "refund", "bounce", "credit", "void", "write_off")
}
REFUSALS = (WrongInvoiceStatus, paying.NotPayable, paying.PaymentConflict, ValueError)


@pytest.mark.parametrize("examples", [8])
def test_statement_is_the_ledger_at_every_instant(either_store: Store, examples: int) -> None:
    @settings(
        max_examples=examples,
        suppress_health_check=[HealthCheck.nested_given],
        deadline=None,
    )
    @given(st.lists(st.sampled_from(sorted(ACTS)), min_size=3, max_size=9))
    def law(names: list[str]) -> None:
        account = Account(either_store)
        for name in names:
            account.now_us += SECOND_US
            try:
                ACTS[name](account)
            except REFUSALS:
                continue
        end_us = account.now_us + 1
        for invoice in list_invoices(either_store, now_us=end_us, org=account.org):
            if invoice.status == "void":
                continue
            gone = credited_cents(invoice.invoice) * 10**7
            total = invoice.paid_nanousd + invoice.due_nanousd + gone
            assert total == invoice.total_nanousd and invoice.due_nanousd >= 0
        for state in paying.list_payments(either_store, org=account.org):
            assert state.on_account_cents >= 0
        whole = statement(either_store, account.org, 0, end_us)
        assert whole.opening_cents == 0
        for at_us in range(T_US, end_us + SECOND_US, SECOND_US):
            before = statement(either_store, account.org, 0, at_us)
            after = statement(either_store, account.org, at_us, end_us)
            assert before.closing_cents == after.opening_cents == account.owed(at_us)
            assert before.entries + after.entries == whole.entries
            assert after.closing_cents == whole.closing_cents
        assert whole.closing_nanousd == (
            whole.opening_nanousd
            + whole.invoiced_nanousd
            + whole.refunded_nanousd
            - whole.credited_nanousd
            - whole.paid_nanousd
        )
        with either_store.read() as conn:
            assert statements_are_the_ledger(conn).detail == ""

    law()


def test_entries_are_in_order_and_named(either_store: Store) -> None:
    account = Account(either_store)
    for act in (account.pay, account.pay, account.refund, account.credit):
        account.now_us += SECOND_US
        act()
    told = statement(either_store, account.org, T_US, account.now_us + 1)
    kinds = [(e.movement.kind, e.movement.amount_cents, e.balance_cents) for e in told.entries]
    assert kinds == [
        ("invoice", 1000, 1000),
        ("payment", -700, 300),
        ("payment", -700, -400),
        ("refund", 400, 0),
        ("credit_note", -150, -150),
    ]
    numbers = [entry.movement.number for entry in told.entries]
    assert numbers[0].startswith("SLU-2026-") and numbers[1:3] == ["w-0", "w-1"]
    assert numbers[4].startswith("SLU-CN-2026-")
    rows = list(rows_of_statement(told))
    assert [rows[0]["balance_usd"], rows[-1]["balance_usd"]] == ["0.00", "-1.50"]
    assert statement(either_store, "org_nobody", 0, T_US).closing_cents == 0


def test_span_with_too_many_entries_is_refused(
    either_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = Account(either_store)
    account.pay()
    monkeypatch.setattr(statements, "ENTRIES_MAX", 1)
    with pytest.raises(TooManyEntries):
        statement(either_store, account.org, 0, T_US + 1)
    assert statement(either_store, account.org, 0, T_US).entries == ()


def test_balance_without_its_document_breaks_the_law(either_store: Store) -> None:
    account = Account(either_store)
    with either_store.write() as conn:
        conn.execute(
            text("UPDATE account SET debits = debits + 1 WHERE code = :code"),
            {"code": f"org:{account.org}:receivable"},
        )
        assert account.org in statements_are_the_ledger(conn).detail


@given(st.integers(-99, 99), st.lists(st.integers(-99, 99).filter(bool)))
def test_balances_run_from_opening_to_closing(opening: int, amounts: list[int]) -> None:
    moved = [Movement(n, "invoice", "a", "", cents) for n, cents in enumerate(amounts)]
    told = statement_of("org", 0, 9, opening, moved)
    assert told.closing_cents == opening + sum(amounts)
    assert len(list(rows_of_statement(told))) == len(amounts) + 2
