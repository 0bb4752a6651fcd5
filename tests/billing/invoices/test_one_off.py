"""One-off invoices on both databases: issued at once, beside those of months, and like them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from billing.credit_notes.crediting import credit
from billing.db.engine import Store
from billing.documents.forms.e_invoice import Syntax, xml_of
from billing.invoices import life, one_off
from billing.invoices.months import list_invoices
from billing.invoices.one_off import BadItem, Item
from billing.invoices.status import InvoiceStatus
from billing.invoices.voids import WrongInvoiceStatus, void
from billing.parties import store as parties
from tests.billing.documents.rules import complaints
from tests.billing.invoices.test_invoices import (
    IN_NOVEMBER_US,
    IN_OCTOBER_US,
    caught_up,
    holds,
    run,
)
from tests.billing.taxes.test_tax_rule import SELLER
from tests.billing.taxes.test_taxation import DOMESTIC, GERMAN, accounts, document, used

ITEMS = [Item("Onboarding", 2, 125_500_000_000), Item("Setup", 1, 3)]


@pytest.fixture
def store(either_store: Store) -> Store:
    parties.put_seller(either_store, replace(SELLER, address=GERMAN.address), 1)
    parties.put_rule(either_store, DOMESTIC, 1)
    return either_store


def test_one_off_invoice_is_issued_at_once_and_is_like_any_other(store: Store) -> None:
    draft = one_off.draft(store, "org_1", ITEMS, now_us=IN_OCTOBER_US)
    invoice_id = draft.invoice["invoice_id"]
    assert (draft.status, draft.parked_because) == ("parked", ("it has no billing profile",))
    words = {"by": "a", "now_us": IN_OCTOBER_US}
    with pytest.raises(WrongInvoiceStatus):
        life.issue(store, invoice_id, series="SLU", **words)  # type: ignore[arg-type]
    parties.put_profile(store, GERMAN, 1)
    used(store, "req_1", IN_OCTOBER_US)
    caught_up(store, IN_NOVEMBER_US)
    (month,) = run(store, "2026-10")
    assert month.number == "SLU-2026-000001" and month.invoice["revision"] == 1
    issued = life.issue(store, invoice_id, series="SLU", by="a", now_us=IN_NOVEMBER_US)
    assert issued.number == "SLU-2026-000002"
    assert [line["kind"] for line in issued.lines] == ["item", "item", "rounding"]
    assert issued.payable_cents == 25_100 + issued.taxation.tax_cents == 29_869
    made = document(store, issued)
    assert [(line.description, line.quantity) for line in made.lines] == [
        ("Onboarding", 2),
        ("Setup", 1),
    ]
    for syntax in Syntax:
        assert complaints(xml_of(made, syntax), syntax) == []
    assert run(store, "2026-10") == [month]
    assert [each.invoice["kind"] for each in list_invoices(store, now_us=0)] == ["month", "one_off"]
    assert accounts(store)["revenue:one_off"] == 25_100
    assert holds(store)
    note = credit(store, invoice_id, external_id="a", reason="a", by="a", now_us=IN_NOVEMBER_US)
    assert note.total_cents == issued.payable_cents
    assert holds(store)


def test_void_one_off_invoice_leaves_nothing_and_no_run_makes_it_anew(store: Store) -> None:
    parties.put_profile(store, GERMAN, 1)
    first, second = (
        one_off.draft(store, "org_1", ITEMS[:1], now_us=IN_NOVEMBER_US) for _ in range(2)
    )
    assert first.invoice["invoice_id"] != second.invoice["invoice_id"]
    before = accounts(store)
    invoice_id = first.invoice["invoice_id"]
    life.issue(store, invoice_id, series="SLU", by="a", now_us=IN_NOVEMBER_US)
    gone = void(store, invoice_id, reason="a", by="a", now_us=IN_NOVEMBER_US)
    assert gone.status is InvoiceStatus.VOID and accounts(store) == before
    assert run(store, "2026-11") == []
    assert holds(store)


@pytest.mark.parametrize("item", [Item("a", 1, 0), Item("a", 1, -1), Item("a", 10**9, 10**9)])
def test_line_that_costs_nothing_or_too_much_makes_no_draft(store: Store, item: Item) -> None:
    with pytest.raises(BadItem):
        one_off.draft(store, "org_1", [item], now_us=IN_NOVEMBER_US)
    assert list_invoices(store, now_us=0) == []
