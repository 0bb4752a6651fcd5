"""From draft to paid: what a person must clear, what the day says, and what is written off."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from sqlalchemy import text

from billing.db.engine import Store
from billing.invoices import life, runs
from billing.invoices.guards import Guards
from billing.invoices.months import list_invoices, preview, run_invoices
from billing.invoices.result import InvoiceResult
from billing.invoices.runs import RunState, advance, start
from billing.invoices.status import InvoiceStanding, InvoiceStatus, status_of
from billing.invoices.store import UnknownInvoice
from billing.invoices.voids import WrongInvoiceStatus, void
from billing.parties import store as parties
from billing.settings import LedgerSettings, TaxSettings, guards_of
from tests.billing.invoices.test_invoices import (
    IN_NOVEMBER_US,
    IN_OCTOBER_US,
    OCTOBER,
    SEPTEMBER,
    book,
    call,
    caught_up,
    holds,
    run,
)
from tests.billing.taxes.test_tax_rule import SELLER
from tests.billing.taxes.test_taxation import DOMESTIC, GERMAN, accounts

DAY_US = 86_400_000_000
LARGE = 20_000_000_000
"""Tokens of output for some 400 USD."""


@given(
    st.builds(
        InvoiceStanding,
        *(st.booleans() for _ in range(4)),
        left_cents=st.integers(-2, 2),
        due_us=st.none() | st.integers(0, 3),
    ),
    st.integers(0, 3),
)
def test_status_is_of_what_is_left_and_of_the_day(standing: InvoiceStanding, now_us: int) -> None:
    status, later = status_of(standing, now_us), status_of(standing, now_us + 5)
    is_owed = status in (InvoiceStatus.OPEN, InvoiceStatus.OVERDUE)
    assert (status in (InvoiceStatus.DRAFT, InvoiceStatus.PARKED)) is not standing.is_final
    if is_owed:
        assert standing.left_cents > 0
        assert later is (InvoiceStatus.OPEN if standing.due_us is None else InvoiceStatus.OVERDUE)
    else:
        assert later is status, "no day changes it"


@pytest.fixture
def store(either_store: Store) -> Store:
    return either_store


def used(store: Store, rid: str, at_us: int, output: int = LARGE) -> None:
    book(store, call(store, rid, at_us, output=output))
    caught_up(store, IN_NOVEMBER_US)


def only(store: Store, now_us: int = IN_NOVEMBER_US) -> InvoiceResult:
    (result,) = list_invoices(store, now_us=now_us)
    return result


def test_open_invoice_becomes_overdue_and_a_bad_debt_is_written_off(store: Store) -> None:
    parties.put_seller(store, replace(SELLER, address=GERMAN.address), 1)
    parties.put_profile(store, replace(GERMAN, payment_terms_days=14), 1)
    parties.put_rule(store, DOMESTIC, 1)
    used(store, "req_1", IN_OCTOBER_US)
    before = accounts(store)
    (issued,) = run(store, "2026-10")
    invoice_id = issued.invoice["invoice_id"]
    assert issued.status is InvoiceStatus.OPEN
    assert only(store, IN_NOVEMBER_US + 14 * DAY_US).status is InvoiceStatus.OPEN
    late_us = IN_NOVEMBER_US + 14 * DAY_US + 1
    assert only(store, late_us).status is InvoiceStatus.OVERDUE
    words = {"reason": "insolvent", "by": "a"}
    gone = life.write_off(store, invoice_id, now_us=late_us, **words)
    assert (gone.status, gone.left_cents) == (InvoiceStatus.UNCOLLECTIBLE, 0)
    assert life.write_off(store, invoice_id, now_us=late_us, **words) == gone == only(store)
    after = accounts(store)
    assert after["expense:bad_debt"] == -issued.payable_cents
    assert "org:org_1:receivable" not in after and after != before
    with pytest.raises(WrongInvoiceStatus):
        void(store, invoice_id, now_us=late_us, **words)
    assert holds(store)


def test_draft_that_is_held_back_waits_until_it_is_approved_or_issued(store: Store) -> None:
    used(store, "req_1", IN_OCTOBER_US)
    (draft,) = run(store, "2026-10", now_us=IN_OCTOBER_US)
    invoice_id = draft.invoice["invoice_id"]
    held = life.hold(store, invoice_id, reason="asks back", by="a", now_us=IN_OCTOBER_US)
    assert (held.status, held.parked_because) == ("parked", ("it is held back: asks back",))
    (still,) = run(store, "2026-10")
    assert still.number is None and still.parked_because == held.parked_because
    with pytest.raises(WrongInvoiceStatus):
        life.write_off(store, invoice_id, reason="a", by="a", now_us=IN_NOVEMBER_US)
    approved = life.approve(store, invoice_id, by="a", now_us=IN_NOVEMBER_US)
    assert approved.status is InvoiceStatus.DRAFT and not approved.parked_because
    life.hold(store, invoice_id, reason="again", by="a", now_us=IN_NOVEMBER_US)
    issued = life.issue(store, invoice_id, by="a", now_us=IN_NOVEMBER_US, series="SLU")
    assert (issued.number, issued.status) == ("SLU-2026-000001", InvoiceStatus.OPEN)
    again = life.issue(store, invoice_id, by="a", now_us=IN_NOVEMBER_US, series="SLU")
    assert again == issued
    with pytest.raises(WrongInvoiceStatus):
        life.hold(store, invoice_id, reason="late", by="a", now_us=IN_NOVEMBER_US)
    with pytest.raises(UnknownInvoice):
        life.approve(store, "inv_0", by="a", now_us=1)
    assert holds(store)


def test_month_that_has_not_ended_is_not_issued(store: Store) -> None:
    used(store, "req_1", IN_OCTOBER_US)
    (draft,) = run(store, "2026-10", now_us=IN_OCTOBER_US)
    with pytest.raises(WrongInvoiceStatus, match="2026-10 has not ended"):
        life.issue(store, draft.invoice["invoice_id"], by="a", now_us=IN_OCTOBER_US, series="SLU")
    assert only(store).number is None


def test_ten_times_the_last_month_is_parked_until_that_amount_is_approved(store: Store) -> None:
    used(store, "req_1", SEPTEMBER.end_us - 1, output=1_500_000_000)
    assert run(store, "2026-09")[0].number
    used(store, "req_2", IN_OCTOBER_US)
    (parked,) = run(store, "2026-10")
    assert parked.parked_because == ("it is more than 10 times that of 2026-09",)
    invoice_id = parked.invoice["invoice_id"]
    life.approve(store, invoice_id, by="a", now_us=IN_NOVEMBER_US)
    used(store, "req_3", IN_OCTOBER_US)
    (grown,) = run(store, "2026-10")
    assert grown.parked_because == parked.parked_because, "nobody has approved this amount"
    life.approve(store, invoice_id, by="a", now_us=IN_NOVEMBER_US)
    (issued,) = run(store, "2026-10")
    assert issued.number == "SLU-2026-000002"
    assert holds(store)


@given(
    st.builds(Guards, times=st.integers(0, 20), from_cents=st.integers(0, 100)),
    st.integers(-100, 200),
    st.integers(-5, 50),
)
def test_only_an_amount_above_both_limits_is_beyond(
    guards: Guards, total: int, before: int
) -> None:
    is_beyond = guards.is_beyond(total, before)
    if guards.times == 0 or total <= guards.from_cents or total <= guards.times * before:
        assert not is_beyond
    if is_beyond:
        assert guards.is_beyond(total + 1, before) and guards.is_beyond(total, before - 1)
        assert not Guards(guards.times, total).is_beyond(total, before)
    elif guards.times and total > guards.from_cents:
        assert total <= guards.times * max(before, 0)


def test_limits_of_the_guard_are_settings(store: Store) -> None:
    assert guards_of(LedgerSettings(), TaxSettings()) == Guards()
    used(store, "req_1", SEPTEMBER.end_us - 1, output=1_500_000_000)
    assert run(store, "2026-09")[0].number
    used(store, "req_2", IN_OCTOBER_US)
    for words in ({"invoice_guard_times": 20}, {"invoice_guard_from_usd": "500"}):
        guards = guards_of(LedgerSettings(**words), TaxSettings())
        shown = preview(store, "org_1", "2026-10", now_us=IN_NOVEMBER_US, guards=guards)
        assert shown is not None and not shown.parked_because
    low = LedgerSettings(invoice_guard_times=2, invoice_guard_from_usd="0.01")
    strict = guards_of(low, TaxSettings())
    words = {"now_us": IN_NOVEMBER_US, "series": "SLU", "guards": strict}
    (parked,) = run_invoices(store, "2026-10", **words)
    assert parked.parked_because == ("it is more than 2 times that of 2026-09",)
    assert list_invoices(store, now_us=IN_NOVEMBER_US, guards=strict)[1] == parked
    issued = life.issue(store, parked.invoice["invoice_id"], by="a", **words)
    assert issued.number


def test_run_waits_for_the_end_of_the_grace_period(store: Store) -> None:
    used(store, "req_1", IN_OCTOBER_US)
    grace_us = IN_NOVEMBER_US - OCTOBER.end_us + 1
    (draft,) = run_invoices(
        store, "2026-10", now_us=IN_NOVEMBER_US, series="SLU", grace_us=grace_us
    )
    assert draft.draft_because == ("its grace period has not ended",)
    job = start(store, "2026-10", now_us=IN_NOVEMBER_US)
    words = {"series": "SLU", "retry_after_us": 0, "grace_us": grace_us}
    assert advance(store, now_us=IN_NOVEMBER_US, **words)
    assert runs.one(store, job.run_id).state is RunState.WAITING
    assert not advance(store, now_us=IN_NOVEMBER_US, **words), "it looks at nothing meanwhile"
    assert advance(store, now_us=IN_NOVEMBER_US + 1, **words)
    assert runs.one(store, job.run_id).state is RunState.DONE
    assert only(store).number


def test_preview_says_what_a_run_would_write_and_writes_nothing(store: Store) -> None:
    assert preview(store, "org_1", "2026-10", now_us=IN_OCTOBER_US) is None
    used(store, "req_1", IN_OCTOBER_US)
    shown = preview(store, "org_1", "2026-10", now_us=IN_OCTOBER_US)
    with store.read() as conn:
        assert conn.execute(text("SELECT count(*) FROM invoice")).scalar_one() == 0
    (draft,) = run(store, "2026-10", now_us=IN_OCTOBER_US)
    assert shown is not None and shown.lines == draft.lines
    assert {**shown.invoice, "series": "SLU"} == draft.invoice
    (issued,) = run(store, "2026-10")
    assert preview(store, "org_1", "2026-10", now_us=IN_NOVEMBER_US) == issued
