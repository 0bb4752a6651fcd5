"""A month that is closed gets no posting, whoever posts and whatever its clock says."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import event, text

from billing.books.closing import PeriodNotEnded, close, closed_months, closed_periods_stay
from billing.books.store import journal_of
from billing.credits.credit import Category, Grant
from billing.credits.grants import give
from billing.db.engine import Store
from billing.invoices import life, one_off
from billing.ledger.closed import PeriodClosed
from billing.ledger.posting import CLOCK_SKEW_MAX_US
from billing.payments.paying import pay
from billing.payments.payment import Receipt
from billing.periods import period
from tests.billing.invoices.test_invoices import (
    IN_NOVEMBER_US,
    IN_OCTOBER_US,
    book,
    call,
    caught_up,
    holds,
    run,
)

OCTOBER = period("2026-10")
AFTER_US = OCTOBER.end_us + CLOCK_SKEW_MAX_US
DATED = text("SELECT count(*) FROM transfer WHERE created_us < :end")


def dated(store: Store) -> int:
    """Transfers of October and before."""
    with store.read() as conn:
        return int(conn.execute(DATED, {"end": OCTOBER.end_us}).scalar_one())


def closed(store: Store, now_us: int = AFTER_US) -> int:
    return close(store, OCTOBER, by="a", now_us=now_us).transfers


def test_month_closes_after_its_end_once_and_for_good(either_store: Store) -> None:
    book(either_store, call(either_store, "req_1", IN_OCTOBER_US), now_us=IN_OCTOBER_US)
    with pytest.raises(PeriodNotEnded):
        closed(either_store, AFTER_US - 1)
    assert closed(either_store) == dated(either_store) > 0
    once = closed_months(either_store)
    assert closed(either_store, AFTER_US + 99) == once[0].transfers
    close(either_store, period("2026-09"), by="b", now_us=AFTER_US)
    assert [each.period for each in closed_months(either_store)] == ["2026-09", "2026-10"]
    assert closed_months(either_store)[1] == once[0]
    assert holds(either_store)


def test_writer_asks_once_a_batch_from_when_the_books_are_open(either_store: Store) -> None:
    calls = [call(either_store, f"req_{n}", IN_OCTOBER_US) for n in range(3)]
    asked: list[str] = []

    def note(_conn: object, _cursor: object, statement: str, *_: object) -> None:
        if "closed_period" in statement:
            asked.append(statement)

    event.listen(either_store.engine, "before_cursor_execute", note)
    book(either_store, *calls, now_us=IN_OCTOBER_US)
    event.remove(either_store.engine, "before_cursor_execute", note)
    assert len(asked) == 1


CLOCKS = st.integers(OCTOBER.start_us, OCTOBER.end_us + 10**9)


def test_no_transfer_is_dated_in_a_closed_month(either_store: Store) -> None:
    """Calls that come late are booked all the same; people are refused."""
    store = either_store
    before = closed(store)
    names = iter(range(10**6))

    def act(kind: str, now_us: int) -> None:
        n = next(names)
        if kind == "call":
            book(store, call(store, f"req_{n}", min(now_us, IN_OCTOBER_US)), now_us=now_us)
        elif kind == "pay":
            pay(store, Receipt("org_1", f"w-{n}", 9, 1), by="a", now_us=now_us)
        elif kind == "grant":
            grant = Grant(
                grant_id=f"g{n}",
                org="org_1",
                category=Category.PAID,
                amount_nanousd=7,
                effective_us=now_us,
                created_us=now_us,
            )
            give(store, grant, created_by="a", now_us=now_us)
        else:
            made = one_off.draft(store, "org_1", [one_off.Item("a", 1, 10**9)], now_us=now_us)
            invoice_id = made.invoice["invoice_id"]
            life.issue(store, invoice_id, by="a", now_us=now_us, series="SLU")

    @settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.nested_given])
    @given(st.sampled_from(("call", "pay", "grant", "issue")), CLOCKS)
    def law(kind: str, now_us: int) -> None:
        try:
            act(kind, now_us)
        except PeriodClosed:
            assert kind != "call" and now_us < OCTOBER.end_us
        assert dated(store) == before
        with store.read() as conn:
            assert closed_periods_stay(conn).detail == ""

    law()


def test_late_call_is_in_the_next_month_s_journal_and_on_its_own_invoice(
    either_store: Store,
) -> None:
    closed(either_store)
    book(either_store, call(either_store, "req_1", IN_OCTOBER_US), now_us=IN_OCTOBER_US)
    assert journal_of(either_store, OCTOBER) == []
    (charge,) = journal_of(either_store, period("2026-11"))
    assert charge.service_month == "2026-10"
    caught_up(either_store, IN_NOVEMBER_US)
    (invoice,) = run(either_store, "2026-10")
    assert invoice.number and invoice.lines[0]["service_start_us"] == OCTOBER.start_us
    assert holds(either_store)


def test_postings_while_a_month_is_closed_are_counted_or_come_after(either_store: Store) -> None:
    def post(n: int) -> None:
        at_us = OCTOBER.end_us - 1
        book(either_store, call(either_store, f"req_{n}", IN_OCTOBER_US), now_us=at_us)

    with ThreadPoolExecutor(5) as pool:
        posted = [pool.submit(post, n) for n in range(8)]
        counts = [pool.submit(closed, either_store) for _ in range(2)]
        for each in posted:
            each.result(60)
    assert {each.result() for each in counts} == {dated(either_store)}
    assert holds(either_store)
