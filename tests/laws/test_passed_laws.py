"""A run passes over an organization only where looking at it would change no row, and it says of it
what looking would say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from billing.db.engine import Store
from billing.invoices.months import list_invoices, run_invoices
from billing.invoices.runs import unchanged
from billing.invoices.store import CUT, INVOICE, LINE
from billing.invoices.terms import MonthBilled, put_terms
from billing.invoices.voids import void
from billing.ledger.store import TRANSFER
from billing.periods import Period, period
from billing.terms.term import PercentTerm
from tests.billing.calls import opened_call
from tests.billing.conftest import RATES
from tests.billing.invoices.test_invoices import book, call, caught_up, run
from tests.laws.examples import examples
from tests.laws.ledgers import fresh, priced

ORGS = ("org_1", "org_2")
MONTHS = [period(name) for name in ("2026-09", "2026-10")]
NOW_US = MONTHS[1].end_us + 3_600_000_000
TABLES = (INVOICE, LINE, CUT, TRANSFER)

orgs, months = st.sampled_from(ORGS), st.sampled_from(MONTHS)
steps = st.lists(
    st.tuples(
        st.sampled_from(["call", "run", "run", "open", "void", "term", "mark"]), orgs, months
    ),
    max_size=12,
)


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    with priced(RATES) as path:
        yield path


def take(store: Store, n: int, what: str, org: str, month: Period) -> None:
    at_us = NOW_US + n
    if what == "call":
        book(store, call(store, f"req_{n}", month.end_us - 1, org=org), now_us=at_us)
    elif what == "open":
        book(store, opened_call(f"req_{n}", org=org, admitted_us=month.start_us), now_us=at_us)
    elif what == "run":
        run(store, month.name, now_us=at_us)
    elif what == "mark":
        caught_up(store, NOW_US)
    elif what == "void":
        for each in list_invoices(store, now_us=at_us, org=org):
            if each.number:
                void(store, each.invoice["invoice_id"], reason="a", by="a", now_us=at_us)
    else:
        try:
            put_terms(store, org, [discount(n)], at_us)
        except MonthBilled:
            return


def discount(n: int) -> PercentTerm:
    return PercentTerm(term_id="t", first_month=MONTHS[0].name, rate_ppm=n)


def rows(store: Store) -> list[object]:
    with store.read() as conn:
        return [tuple(row) for table in TABLES for row in conn.execute(table.select())]


def passed(store: Store, month: Period) -> dict[str, bool]:
    with store.read() as conn:
        return unchanged(conn, ORGS, month, NOW_US, 0)


@settings(max_examples=examples(60), deadline=None)
@given(steps)
def test_run_passes_over_those_alone_whose_invoice_it_would_leave(
    template: Path, taken: list[tuple[str, str, Period]]
) -> None:
    with fresh(template) as store:
        for n, step in enumerate(taken, start=1):
            take(store, n, *step)
        for month in MONTHS:
            for org, waits in passed(store, month).items():
                before = rows(store)
                results = run_invoices(store, month.name, now_us=NOW_US + 50, series="SLU", org=org)
                assert rows(store) == before
                reasons = [set(each.draft_because) - set(each.parked_because) for each in results]
                assert any(reasons) == waits


def test_organization_is_looked_at_again_once_it_has_something_new(template: Path) -> None:
    with fresh(template) as store:
        for n, org in enumerate(ORGS):
            take(store, n, "call", org, MONTHS[1])
        assert passed(store, MONTHS[1]) == {}
        run(store, MONTHS[1].name, now_us=NOW_US)
        assert passed(store, MONTHS[1]) == dict.fromkeys(ORGS, True)
        take(store, 9, "call", "org_1", MONTHS[1])
        assert passed(store, MONTHS[1]) == {"org_2": True}
        take(store, 10, "mark", "", MONTHS[1])
        assert passed(store, MONTHS[1]) == {}, "they can be final now"
        run(store, MONTHS[1].name, now_us=NOW_US)
        assert passed(store, MONTHS[1]) == dict.fromkeys(ORGS, False)
