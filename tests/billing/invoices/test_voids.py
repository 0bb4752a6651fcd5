"""Void and made anew: a number is never lost, and no charge is billed twice, on both databases."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from billing.charges.trace import line_transfers
from billing.db.engine import Store
from billing.invoices.months import list_invoices
from billing.invoices.result import InvoiceResult
from billing.invoices.store import UnknownInvoice
from billing.invoices.voids import NotIssued, void
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


@pytest.fixture
def store(either_store: Store) -> Store:
    return either_store


def voided(store: Store, result: InvoiceResult) -> InvoiceResult:
    invoice_id = result.invoice["invoice_id"]
    return void(store, invoice_id, reason="wrong", by="a", now_us=IN_NOVEMBER_US)


def balance(store: Store, account: str) -> int:
    with store.read() as conn:
        moved = text(f"SELECT debits - credits FROM account WHERE code = 'org:org_1:{account}'")
        return int(conn.execute(moved).scalar_one())


def issued(store: Store) -> InvoiceResult:
    book(store, call(store, "req_1", IN_OCTOBER_US, output=50_000))
    caught_up(store, IN_NOVEMBER_US)
    (result,) = run(store, "2026-10")
    return result


def test_void_gives_the_charges_back_and_the_next_revision_takes_them(store: Store) -> None:
    first = issued(store)
    used = first.invoice["subtotal_nanousd"]
    assert voided(store, first).status == "void"
    assert (balance(store, "receivable"), balance(store, "unbilled")) == (0, used)
    assert holds(store)
    book(store, call(store, "req_2", IN_OCTOBER_US))
    (second,) = run(store, "2026-10")
    assert second.invoice["replaces_id"] == first.invoice["invoice_id"]
    assert (second.number, second.invoice["revision"]) == ("SLU-2026-000002", 2)
    assert second.invoice["subtotal_nanousd"] > used and balance(store, "unbilled") == 0
    assert [each.status for each in list_invoices(store, now_us=0)] == ["void", "paid"]
    for result in (first, second):
        behind = line_transfers(store, result.invoice["invoice_id"], 1)
        assert len(behind) == result.lines[0]["transfers"]
    assert run(store, "2026-10") == [second]
    assert holds(store)


def test_void_again_changes_nothing_and_a_draft_is_not_voided(store: Store) -> None:
    first = issued(store)
    once = voided(store, first)
    assert voided(store, first) == once
    (draft,) = run(store, "2026-10", now_us=IN_OCTOBER_US)
    assert draft.status == "draft" and draft.invoice["revision"] == 2
    with pytest.raises(NotIssued):
        voided(store, draft)
    with pytest.raises(UnknownInvoice):
        void(store, "inv_0", reason="", by="a", now_us=1)
    assert holds(store)


def test_charges_of_a_void_month_are_not_late_on_the_next_invoice(store: Store) -> None:
    book(store, call(store, "req_1", SEPTEMBER.end_us - 1), now_us=IN_OCTOBER_US)
    caught_up(store, IN_NOVEMBER_US)
    (september,) = run(store, "2026-09")
    voided(store, september)
    book(store, call(store, "req_2", IN_OCTOBER_US))
    (october,) = run(store, "2026-10")
    assert {line["service_end_us"] for line in october.lines} == {october.invoice["period_end_us"]}
    (again,) = run(store, "2026-09")
    usage = [line for line in again.lines if line["kind"] == "usage"]
    assert usage == [
        line | {"invoice_id": again.invoice["invoice_id"]}
        for line in september.lines
        if line["kind"] == "usage"
    ]
    assert holds(store)
