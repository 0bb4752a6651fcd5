"""Laws of months at random: calls in and out of time, prices, terms, credit, voids, credit notes
and payments in any order.

Every law of the ledger holds, every document sums to it, and FOCUS bills what is payable. Runs that
are killed, doubled and repeated leave the same database, byte for byte, as runs that are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from sqlalchemy import Connection, event

from billing.credit_notes import store as notes
from billing.credit_notes.crediting import credit
from billing.credit_notes.note import BadCredit
from billing.credits.credit import Category, Grant
from billing.credits.grants import give
from billing.db.engine import Store
from billing.documents.document import Document
from billing.documents.forms.focus import focus_rows
from billing.documents.invoice_document import categories_of, document_of
from billing.documents.note_document import note_document
from billing.documents.parties import parties_of
from billing.invoices.life import issue
from billing.invoices.months import list_invoices
from billing.invoices.result import InvoiceResult
from billing.invoices.terms import MonthBilled, put_terms
from billing.invoices.voids import WrongInvoiceStatus, void
from billing.money import NANOUSD_PER_CENT
from billing.parties import store as parties
from billing.payments.paying import NotPayable, pay
from billing.payments.payment import Receipt
from billing.periods import Period, period
from billing.prices.versions import load_book, put_into_force
from billing.taxes.tax_rule import TaxRule
from billing.terms.term import BadTerms, Term, checked
from billing.verify import verify
from tests.billing.conftest import RATES
from tests.billing.invoices.test_invoices import book, call, caught_up, run
from tests.billing.invoices.test_voids import balance
from tests.billing.taxes.test_tax_rule import SELLER
from tests.billing.taxes.test_taxation import GERMAN
from tests.billing.terms.test_adjustments import terms
from tests.laws.examples import examples
from tests.laws.ledgers import fresh, priced

ORG = "org_1"
MONTHS = [period(name) for name in ("2026-08", "2026-09", "2026-10")]
LAST = period("2026-11")
NOW_US = LAST.end_us + 3_600_000_000
LAWS = ("I1", "I2", "I5", "I7", "I10")
RULE = TaxRule(rule_id="de", category="S", rate_ppm=190_000, from_us=0, buyer_country="DE")
SOON = 40
"""Statements within which a run may be killed."""


class Step(NamedTuple):
    """`which` of the months or documents, and how much or when."""

    what: str
    which: int
    number: int
    terms: Sequence[Term] = ()


def steps_of(what: str, numbers: st.SearchStrategy[int]) -> st.SearchStrategy[Step]:
    return st.builds(Step, st.just(what), st.integers(0, 5), numbers)


some = st.one_of(
    steps_of("call", st.integers(1, 10**9)),
    steps_of("call", st.integers(10**8, 10**9)),
    steps_of("run", st.integers(1, SOON)),
    steps_of("run", st.integers(1, SOON)),
    steps_of("price", st.integers(0, 3 * 10**7)),
    steps_of("grant", st.integers(1, 10**11)),
    steps_of("void", st.just(0)),
    steps_of("credit", st.integers(1, 2_000)),
    steps_of("pay", st.integers(1, 9_000)),
    st.builds(Step, st.just("terms"), st.just(0), st.just(0), terms()),
)
months = st.lists(some, min_size=4, max_size=14)
LATE_AND_CREDITED = [
    Step("grant", 0, 10**9),
    Step("call", 1, 10**9),
    Step("run", 1, 7),
    Step("call", 1, 10**8),
    Step("credit", 0, 1_000),
    Step("pay", 0, 9_000),
    Step("credit", 0, 700),
    Step("run", 2, 3),
    Step("void", 1, 0),
    Step("run", 2, 11),
]


class Killed(Exception):
    """What ends a run at a statement."""


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    with priced(RATES) as path:
        yield path


@settings(max_examples=examples(18), deadline=None)
@given(months)
@example(LATE_AND_CREDITED)
def test_documents_of_any_months_sum_to_the_ledger_however_their_runs_went(
    template: Path, steps: list[Step]
) -> None:
    with fresh(template) as store:
        live(store, steps, Quiet())
        first = digest(store)
        _check(store)
        for month in (LAST, *MONTHS):
            run(store, month.name, now_us=NOW_US + 90)
        assert digest(store) == first, "a run again changes no byte"
    with fresh(template) as store:
        live(store, steps, Disturbed())
        assert digest(store) == first, "a run that was killed and doubled changes no byte"


class Quiet:
    """Runs that nothing happens to."""

    def run(self, store: Store, month: str, now_us: int, _kill_at: int) -> list[InvoiceResult]:
        return run(store, month, now_us=now_us)


class Disturbed:
    """Runs that are killed, then two at once, and then again."""

    def run(self, store: Store, month: str, now_us: int, kill_at: int) -> list[InvoiceResult]:
        statements = iter(range(1, 10**6))

        def count(*_: Any) -> None:
            if next(statements) == kill_at:
                raise Killed

        event.listen(store.engine, "before_cursor_execute", count)
        try:
            run(store, month, now_us=now_us)
        except Killed:
            pass
        finally:
            event.remove(store.engine, "before_cursor_execute", count)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: run(store, month, now_us=now_us), range(2)))
        return run(store, month, now_us=now_us)


def live(store: Store, steps: Sequence[Step], runs: Quiet | Disturbed) -> None:
    parties.put_seller(store, SELLER, 1)
    parties.put_profile(store, GERMAN, 2)
    parties.put_rule(store, RULE, 1)
    caught_up(store, NOW_US)
    for n, step in enumerate(steps):
        take(store, n, step, runs)
    for month in (*MONTHS, LAST):
        for result in runs.run(store, month.name, NOW_US + 50, 5):
            if result.parked_because:
                invoice_id = result.invoice["invoice_id"]
                issue(store, invoice_id, by="a", series="SLU", now_us=NOW_US + 50)


def take(store: Store, n: int, step: Step, runs: Quiet | Disturbed) -> None:
    month, now_us = MONTHS[step.which % len(MONTHS)], NOW_US + n
    match step.what:
        case "call":
            used(store, n, step.number, month, now_us)
        case "run":
            runs.run(store, month.name, now_us, step.number)
        case "price":
            rates = [replace(each, nanousd_per_mtok=step.number) for each in RATES]
            put_into_force(store, rates, by="a", now_us=1_000 + n, version_id=f"pv_{n}_later")
        case "grant":
            grant = Grant(
                grant_id=f"g{n}",
                org=ORG,
                category=[*Category][step.which % 2],
                amount_nanousd=step.number,
                effective_us=1,
                created_us=1,
            )
            give(store, grant, created_by="a", now_us=1)
        case "terms":
            put(store, step.terms)
        case what:
            change(store, n, what, step)


def used(store: Store, n: int, output: int, month: Period, now_us: int) -> None:
    frozen = {"price_version": load_book(store).versions[-1].version_id}
    book(store, call(store, f"req_{n}", month.end_us - 1, output=output, **frozen), now_us=now_us)


def put(store: Store, made: Sequence[Term]) -> None:
    try:
        put_terms(store, ORG, checked(made), NOW_US)
    except (BadTerms, MonthBilled):
        return


def change(store: Store, n: int, what: str, step: Step) -> None:
    """Void, credit or pay an invoice; what that one does not bear is refused and changes
    nothing."""
    issued = [each for each in list_invoices(store, now_us=NOW_US) if each.number]
    if not issued:
        return
    invoice_id = issued[step.which % len(issued)].invoice["invoice_id"]
    words: dict[str, Any] = {"by": "a", "now_us": NOW_US + n}
    before = digest(store)
    try:
        match what:
            case "void":
                void(store, invoice_id, reason="a", **words)
            case "credit":
                cents = {"amount_cents": step.number}
                credit(store, invoice_id, external_id=str(n), reason="a", **cents, **words)
            case "pay":
                money = Receipt(ORG, str(n), step.number, NOW_US, invoice_id=invoice_id)
                pay(store, money, **words)
    except (WrongInvoiceStatus, BadCredit, NotPayable):
        assert digest(store) == before


def digest(store: Store) -> str:
    """Of every row of the database."""
    whole = sha256()
    with store.read() as conn:
        tables = conn.exec_driver_sql(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            " ORDER BY name"
        ).scalars()
        for table in tables.all():
            rows = map(repr, conn.exec_driver_sql(f'SELECT * FROM "{table}"').all())
            whole.update("\n".join([table, *sorted(rows)]).encode())
    return whole.hexdigest()


def _check(store: Store) -> None:
    report = verify(store, now_us=NOW_US + 99)
    assert report.ok, report.as_text()
    assert {each.name.split()[0] for each in report.checks}.issuperset(LAWS)
    results = list_invoices(store, now_us=NOW_US + 99)
    owed_cents = sum(result.left_cents for result in results)
    if owed_cents:
        assert balance(store, "receivable") == owed_cents * NANOUSD_PER_CENT
    for result in results:
        made = _document(store, result)
        parts = [result.left_cents, result.invoice["paid_cents"], result.invoice["noted_cents"]]
        if result.status == "void":
            assert parts == [0, 0, 0]
        else:
            assert sum(parts) == result.payable_cents, "paid, due and credited are the total"
            assert result.left_cents >= min(0, result.payable_cents), "more is on account"
        assert _billed(made) == result.payable_cents, "I14"
        with store.read() as conn:
            for note in notes.find(conn, org=ORG, invoice_id=result.invoice["invoice_id"]):
                _check_note(conn, note, made)


def _document(store: Store, result: InvoiceResult) -> Document:
    with store.read() as conn:
        named = parties_of(conn, result.invoice)
    assert named is not None, "every month is issued"
    categories = categories_of(store, result.lines)
    parties = {"seller": named.seller, "buyer": named.buyer}
    return document_of(result, **parties, categories=categories, terms=named.terms)


def _check_note(conn: Connection, note: dict[str, Any], of: Document) -> None:
    note_id, owed = note["note_id"], note["net_cents"] + note["tax_cents"]
    taxes = notes.taxes_of(conn, note_id)
    made = note_document(note, "SLU-CN", notes.lines_of(conn, note_id), taxes, of)
    assert made.totals.due_cents == owed
    assert _billed(made) == -owed, "I14"


def _billed(made: Document) -> Decimal:
    """What FOCUS bills, in cents."""
    return 100 * sum((Decimal(str(row["BilledCost"])) for row in focus_rows(made)), Decimal(0))
