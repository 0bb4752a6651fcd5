"""The history of an invoice on both databases: what its rows say, who was told, and what comes."""

from __future__ import annotations

from typing import Any

import pytest

from billing.credit_notes.crediting import credit
from billing.db.engine import Store
from billing.dunning.dunning import take_steps
from billing.history.history import InvoiceHistory, history_of
from billing.invoices import life
from billing.invoices.months import invoice_by_id
from billing.invoices.result import InvoiceResult
from billing.invoices.voids import void
from billing.money import NANOUSD_PER_CENT
from billing.outbox import store as outbox
from billing.payments.paying import pay, reverse
from billing.payments.payment import Receipt
from tests.billing.dunning.test_dunning import after, issued, paid
from tests.billing.dunning.test_steps import STEPS
from tests.billing.dunning.test_suspension import dunned, with_organization
from tests.billing.invoices.test_invoices import (
    IN_NOVEMBER_US,
    IN_OCTOBER_US,
    book,
    call,
    caught_up,
    run,
)


@pytest.fixture
def store(either_store: Store) -> Store:
    return with_organization(either_store)


def endpoint(store: Store, url: str) -> None:
    row = {
        **{"endpoint_id": f"wh_{len(url)}", "url": url, "events": [], "org": "", "note": ""},
        **{"is_enabled": True, "secret": "s", "previous_secret": "", "previous_until_us": 0},
    }
    with store.write() as conn:
        outbox.insert_endpoint(conn, row | {"created_us": 1, "changed_us": 1})


def history(store: Store, result: InvoiceResult, now_us: int) -> InvoiceHistory:
    with store.read() as conn:
        seen = invoice_by_id(conn, result.invoice["invoice_id"], now_us)
        assert seen is not None
        found = history_of(conn, seen, STEPS)
    keys = [event.key for event in found.events]
    assert keys == sorted(set(keys)), "each event has a place of its own"
    paid_cents = sum(
        (event.amount_nanousd or 0) * (1 if event.kind == "payment" else -1)
        for event in found.events
        if event.kind in ("payment", "payment_back")
    )
    assert paid_cents == seen.invoice["paid_cents"] * NANOUSD_PER_CENT
    return found


def words(found: InvoiceHistory) -> list[str]:
    return [event.kind.value for event in found.events if event.delivery is None]


def sent(found: InvoiceHistory) -> list[tuple[str, bool]]:
    return [(each.event.value, each.is_mailed) for e in found.events if (each := e.delivery)]


def test_unpaid_invoice_is_dunned_suspended_and_paid_in_parts(store: Store) -> None:
    endpoint(store, "https://a.example/hook")
    endpoint(store, "mailto:")
    invoice = issued(store)
    before = history(store, invoice, IN_NOVEMBER_US)
    assert words(before) == ["issued"]
    assert before.events[0].name == invoice.number
    assert sorted(sent(before)) == [("invoice.issued", False), ("invoice.issued", True)]
    assert before.coming is not None and before.coming.step == "reminder"
    dunned(store)
    suspended = history(store, invoice, after(30))
    assert words(suspended) == ["issued", *["dunning_step"] * 4, "suspended"]
    assert suspended.coming is None, "no step is left"
    paid(store, invoice, after(31), 100)
    left = invoice.payable_cents - 100
    payment_id = paid(store, invoice, after(32), left)
    told = words(settled := history(store, invoice, after(33)))
    assert told[-3:] == ["payment", "payment", "reinstated"]
    assert [e.reference for e in settled.events if e.kind == "payment"][-1] == payment_id
    kinds = {kind for kind, _ in sent(settled)}
    assert kinds == {
        *("invoice.issued", "invoice.overdue", "invoice.paid", "payment.received"),
        *("organization.suspended", "organization.reinstated"),
    }
    reverse(store, payment_id, reason="bounced", by="a", now_us=after(34))
    again = history(store, invoice, after(34))
    assert words(again)[-2:] == ["suspended", "payment_back"]
    assert "bounced" in [event.reason for event in again.events]


def test_steps_come_on_their_days_and_late_ones_move_those_behind(store: Store) -> None:
    invoice = issued(store)
    first = history(store, invoice, after(0)).coming
    assert first is not None
    assert take_steps(store, STEPS, after(5)) == 1
    second = history(store, invoice, after(5)).coming
    assert second is not None and second.step == "second_reminder"
    assert (second.day - first.day).days == 9, "two days late, and seven between them"
    paid(store, invoice, after(6))
    assert history(store, invoice, after(6)).coming is None


@pytest.mark.parametrize("end", ["void", "write_off"])
def test_end_of_an_invoice_says_who_and_why(store: Store, end: str) -> None:
    invoice = issued(store)
    invoice_id = invoice.invoice["invoice_id"]
    said: dict[str, Any] = {"reason": "wrong price", "by": "ann", "now_us": after(1)}
    if end == "void":
        paid(store, invoice, after(0), 100)
        void(store, invoice_id, **said)
        run(store, "2026-10", after(2))
        found = history(store, invoice, after(2))
        assert words(found) == ["issued", "payment", "voided", "payment_back", "replaced"]
        assert found.events[-1].reference != invoice_id
    else:
        credit(store, invoice_id, amount_cents=100, external_id="c", **said)
        life.write_off(store, invoice_id, **said | {"now_us": after(2)})
        found = history(store, invoice, after(2))
        assert words(found) == ["issued", "credited", "written_off"]
        assert "-CN-" in found.events[1].name
    told = next(e for e in found.events if e.kind in ("voided", "written_off"))
    assert (told.actor, told.reason) == ("ann", "wrong price")


def test_draft_has_the_last_word_on_it_and_who_issued_it(store: Store) -> None:
    book(store, call(store, "req_1", IN_OCTOBER_US, output=50_000_000))
    (draft,) = run(store, "2026-10", IN_OCTOBER_US)
    invoice_id = draft.invoice["invoice_id"]
    life.hold(store, invoice_id, reason="ask first", by="ann", now_us=IN_OCTOBER_US + 1)
    held = history(store, draft, IN_OCTOBER_US + 1)
    assert [(e.kind.value, e.actor, e.reason) for e in held.events] == [
        ("drafted", "", ""),
        ("held", "ann", "ask first"),
    ]
    caught_up(store, IN_NOVEMBER_US)
    life.issue(store, invoice_id, by="bob", now_us=IN_NOVEMBER_US, series="SLU")
    told = history(store, draft, IN_NOVEMBER_US).events
    assert [(e.kind.value, e.actor) for e in told] == [("approved", "bob"), ("issued", "bob")]


def test_what_was_on_account_pays_at_issue_and_nobody_did_it(store: Store) -> None:
    pay(store, Receipt("org_1", "w", 100, 1), by="ann", now_us=2)
    invoice = issued(store)
    found = history(store, invoice, IN_NOVEMBER_US)
    assert [(e.kind.value, e.actor) for e in found.events] == [("issued", ""), ("payment", "")]
