"""Suspension on both databases: at the last step, and gone with whatever settles the invoice."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import insert, text

from billing.credit_notes.crediting import credit
from billing.db.engine import Store, open_store
from billing.dunning import store as rows
from billing.dunning.dunning import take_steps
from billing.dunning.steps import StepName
from billing.dunning.suspension import is_beyond_last_step
from billing.invoices import life
from billing.invoices.result import InvoiceResult
from billing.invoices.voids import void
from billing.payments.paying import pay, reverse
from billing.payments.payment import Receipt
from gateway.tenants.tables import Organization
from tests.billing.dunning.test_dunning import after, issued, paid, told
from tests.billing.dunning.test_steps import STEPS
from tests.billing.invoices.test_invoices import SEPTEMBER, book, call, run
from tests.billing.payments.test_credits import issue_below_zero

Settle = Callable[[Store, InvoiceResult, int], Any]
LAST = after(31)


@pytest.fixture
def store(either_store: Store) -> Store:
    """With the organization as gateways know it."""
    return with_organization(either_store)


def with_organization(store: Store) -> Store:
    with store.write() as conn:
        row = {"id": "org_1", "name": "a", "slug": "a", "created_us": 1, "status": "active"}
        conn.execute(insert(Organization), [row])
        conn.execute(text("DELETE FROM catalog_revision"))
        conn.execute(text("INSERT INTO catalog_revision (id, revision) VALUES (1, 1)"))
    return store


def status(store: Store) -> tuple[str, int]:
    with store.read() as conn:
        one = conn.execute(text("SELECT status FROM organization")).scalar_one()
        return one, conn.execute(text("SELECT revision FROM catalog_revision")).scalar_one()


def set_status(store: Store, to: str) -> None:
    with store.write() as conn:
        conn.execute(text("UPDATE organization SET status = :to"), {"to": to})


def dunned(store: Store) -> None:
    for days in (3, 10, 20, 30):
        assert take_steps(store, STEPS, after(days)) == 1


def by_payment(store: Store, invoice: InvoiceResult, now_us: int) -> None:
    paid(store, invoice, now_us)


def by_credit_note(store: Store, invoice: InvoiceResult, now_us: int) -> None:
    words = {"external_id": "c", "reason": "a", "by": "a"}
    credit(store, invoice.invoice["invoice_id"], **words, now_us=now_us)


def by_void(store: Store, invoice: InvoiceResult, now_us: int) -> None:
    void(store, invoice.invoice["invoice_id"], reason="a", by="a", now_us=now_us)


def by_write_off(store: Store, invoice: InvoiceResult, now_us: int) -> None:
    life.write_off(store, invoice.invoice["invoice_id"], reason="a", by="a", now_us=now_us)


@pytest.mark.parametrize("settle", [by_payment, by_credit_note, by_void, by_write_off])
def test_last_step_suspends_and_what_settles_the_invoice_lifts_at_once(
    store: Store, settle: Settle
) -> None:
    invoice = issued(store)
    dunned(store)
    assert status(store) == ("suspended", 2)
    settle(store, invoice, LAST)
    assert status(store) == ("active", 3)
    kinds = ("organization.suspended", "organization.reinstated")
    assert [len(told(store, kind)) for kind in kinds] == [1, 1]


def test_part_of_a_payment_lifts_nothing_and_one_that_did_not_hold_suspends_again(
    store: Store,
) -> None:
    invoice = issued(store)
    dunned(store)
    paid(store, invoice, LAST, invoice.payable_cents - 1)
    assert status(store)[0] == "suspended"
    payment_id = paid(store, invoice, LAST, 1)
    assert status(store)[0] == "active"
    reverse(store, payment_id, reason="bounced", by="a", now_us=LAST + 1)
    assert status(store)[0] == "suspended"
    assert take_steps(store, STEPS, after(99)) == 0


def test_credit_of_an_invoice_below_zero_lifts_and_its_void_suspends_again(store: Store) -> None:
    invoice = issued(store)
    dunned(store)
    below_zero = issue_below_zero(store, "org_1", invoice.payable_cents, LAST)
    assert status(store)[0] == "active"
    void(store, below_zero, reason="a", by="a", now_us=LAST)
    assert status(store)[0] == "suspended"


def test_what_a_person_says_of_an_organization_stands(store: Store) -> None:
    invoice = issued(store)
    set_status(store, "frozen")
    dunned(store)
    assert status(store)[0] == "frozen"
    by_payment(store, invoice, LAST)
    assert status(store)[0] == "frozen"


def test_one_that_was_let_go_on_is_not_suspended_for_the_same_invoice(store: Store) -> None:
    invoice = issued(store)
    dunned(store)
    set_status(store, "active")
    paid(store, invoice, LAST, 1)
    assert take_steps(store, STEPS, after(99)) == 0
    assert status(store)[0] == "active"


ACTS = st.lists(
    st.tuples(st.sampled_from(["pay", "part", "reverse", "step"]), st.integers(0, 1)), max_size=10
)


@given(acts=ACTS)
@settings(max_examples=25, suppress_health_check=list(HealthCheck), deadline=None)
def test_suspended_is_who_is_overdue_beyond_the_last_step(
    empty_ledger: Path, tmp_path: Path, acts: list[tuple[str, int]]
) -> None:
    """Law: of two invoices, after whatever happened in whichever order."""
    path = tmp_path / "law.db"
    path.write_bytes(empty_ledger.read_bytes())
    with closing(open_store(f"sqlite:///{path}")) as opened:
        store = with_organization(opened)
        invoices = two_invoices(store)
        payments: list[str] = []
        for place, (act, which) in enumerate(acts):
            now_us, invoice = after(100 + 20 * place), invoices[which]
            if act == "step":
                take_steps(store, STEPS, now_us)
            elif act == "reverse" and payments:
                reverse(store, payments.pop(), reason="a", by="a", now_us=now_us)
            elif act in ("pay", "part"):
                cents = invoice.payable_cents if act == "pay" else 1
                name = {"invoice_id": invoice.invoice["invoice_id"]}
                receipt = Receipt("org_1", f"w{place}", cents, 1, **name)
                state = pay(store, receipt, by="a", now_us=now_us)
                payments.append(state.payment["payment_id"])
            with store.read() as conn:
                beyond = is_beyond_last_step(conn, "org_1", now_us)
            assert (status(store)[0] == "suspended") is beyond


def two_invoices(store: Store) -> list[InvoiceResult]:
    first = issued(store)
    book(store, call(store, "req_2", SEPTEMBER.end_us - 1, output=50_000_000))
    (second,) = run(store, "2026-09")
    with store.write() as conn:
        rows.insert_step(conn, second.invoice["invoice_id"], StepName.LAST_NOTICE, 1, after(0))
    return [first, second]
