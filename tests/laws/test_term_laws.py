"""Laws of terms on a ledger: whatever comes late, is void or is run again, the invoices that count
have of each month what its terms give for all of its charges, and the ledger has it too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from billing.db.engine import Store
from billing.invoices import agreed
from billing.invoices import store as rows
from billing.invoices.life import issue
from billing.invoices.months import list_invoices
from billing.invoices.terms import MonthBilled, put_terms
from billing.invoices.voids import void
from billing.ledger import audit
from billing.periods import Period, period
from billing.terms.adjustments import adjustments
from billing.terms.store import terms_of
from billing.terms.term import BadTerms, Term, checked, in_month
from tests.billing.conftest import RATES
from tests.billing.invoices.test_invoices import book, call, caught_up, run
from tests.billing.terms.test_adjustments import terms
from tests.laws.examples import examples
from tests.laws.ledgers import fresh, priced

ORG = "org_1"
MONTHS = [period(name) for name in ("2026-08", "2026-09", "2026-10")]
LAST = period("2026-11")
"""Its invoice has what came late for all others."""
NOW_US = LAST.end_us + 3_600_000_000

calls = st.tuples(st.just("call"), st.sampled_from(MONTHS), st.integers(1, 10**9))
runs = st.tuples(st.just("run"), st.sampled_from(MONTHS), st.just(0))
voids = st.tuples(st.just("void"), st.just(MONTHS[0]), st.integers(0, 5))
steps = st.lists(st.one_of(calls, runs, runs, voids), max_size=12)


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    with priced(RATES) as path:
        yield path


def take(store: Store, n: int, step: tuple[str, Period, int]) -> None:
    what, month, number = step
    if what == "call":
        book(store, call(store, f"req_{n}", month.end_us - 1, output=number), now_us=NOW_US + n)
    elif what == "run":
        run(store, month.name, now_us=NOW_US + n)
    else:
        issued = [each for each in list_invoices(store, now_us=NOW_US) if each.number]
        if issued:
            invoice_id = issued[number % len(issued)].invoice["invoice_id"]
            void(store, invoice_id, reason="a", by="a", now_us=NOW_US + n)


def bill(store: Store, month: Period) -> None:
    """Also what a person must clear because it is much more than the month before."""
    for result in run(store, month.name, now_us=NOW_US + 50):
        if result.parked_because:
            invoice_id = result.invoice["invoice_id"]
            issue(store, invoice_id, by="a", series="SLU", now_us=NOW_US + 50)


def put(store: Store, made: list[Term]) -> None:
    try:
        put_terms(store, ORG, checked(made), NOW_US)
    except (BadTerms, MonthBilled):
        return


@settings(max_examples=examples(24), deadline=None)
@given(terms(), terms(), steps, steps)
def test_invoices_that_count_have_what_the_terms_of_each_month_give(
    template: Path,
    first: list[Term],
    second: list[Term],
    before: list[tuple[str, Period, int]],
    after: list[tuple[str, Period, int]],
) -> None:
    with fresh(template) as store:
        caught_up(store, NOW_US)
        put(store, first)
        for n, step in enumerate(before):
            take(store, n, step)
        put(store, second)
        for n, step in enumerate(after, start=len(before)):
            take(store, n, step)
        for month in (*MONTHS, LAST):
            bill(store, month)
        stands = list_invoices(store, now_us=NOW_US)
        for month in (LAST, *MONTHS):
            run(store, month.name, now_us=NOW_US + 60)
        assert list_invoices(store, now_us=NOW_US) == stands, "a run again changes nothing"
        _check(store)


def _check(store: Store) -> None:
    with store.read() as conn:
        held = terms_of(conn, ORG)
        for month in (*MONTHS, LAST):
            charges = agreed.month_charges(conn, ORG, month.start_us)
            given = {
                (each.kind.value, each.term.term_id): each.amount_nanousd
                for each in adjustments(charges, in_month(held, month.name))
            }
            billed = rows.of_terms(conn, ORG, month.start_us, but="")
            assert {key: amount for key, amount in billed.items() if amount} == given
        debits, credits = audit.totals(conn)
        assert debits == credits
        stands = {code: debits - credits for code, _, debits, credits in audit.moved(conn)}
    assert stands.get("org:org_1:unbilled", 0) == 0
    total = sum(
        each.total_nanousd for each in list_invoices(store, now_us=0) if each.status != "void"
    )
    owed = ("org:org_1:receivable", "org:org_1:on_account")
    assert total == sum(stands.get(code, 0) for code in owed)
