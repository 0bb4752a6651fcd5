"""The books: every account has one, entries are the ledger, and what is owed has an age."""

from __future__ import annotations

import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from billing.books.accounts import ACCOUNTS, UnmappedAccount, account_for, with_own
from billing.books.journal import beancount_journal, entries, rows_of_journal
from billing.books.receivables import DAY_US, OpenInvoice, age_of, by_age
from billing.books.store import journal_of, receivables
from billing.db.engine import Store
from billing.invoices.months import list_invoices
from billing.money import nanousd
from billing.payments.paying import pay
from billing.payments.payment import Receipt
from billing.periods import period
from tests.billing.invoices.test_invoices import (
    IN_NOVEMBER_US,
    IN_OCTOBER_US,
    book,
    call,
    caught_up,
    run,
)

BEAN_CHECK = Path(sys.executable).with_name("bean-check")

NOW_US = 10**15
CODES = st.sampled_from(["org:a:unbilled", "org:a:receivable", "cash:payments", "tax:main:DE"])


@pytest.fixture
def store(either_store: Store) -> Store:
    """With a month that is issued, and paid in part."""
    book(either_store, call(either_store, "req_1", IN_OCTOBER_US, output=50_000_000))
    caught_up(either_store, IN_NOVEMBER_US)
    (issued,) = run(either_store, "2026-10")
    receipt = Receipt("org_1", "w", 40, 1, invoice_id=issued.invoice["invoice_id"])
    pay(either_store, receipt, by="a", now_us=IN_NOVEMBER_US)
    return either_store


def test_every_account_of_the_ledger_has_one_in_the_books(store: Store) -> None:
    with store.read() as conn:
        codes = list(conn.execute(text("SELECT code FROM account")).scalars())
    assert {account_for(code) for code in codes} <= set(ACCOUNTS.values())
    assert account_for("expense:promotion") == "Expenses:Promotion"
    assert account_for("revenue:one_off") == "Income:OneOff"
    assert account_for("variance:provider:acme") == "Expenses:Capacity:Variance"
    assert account_for("tax:main:DE") == account_for("tax:main") == "Liabilities:Tax"
    for code in ("org:a", "strange", "org:a:receivable:x", "tax"):
        with pytest.raises(UnmappedAccount):
            account_for(code)


@settings(max_examples=30)
@given(st.lists(st.tuples(CODES, CODES, st.integers(1, 10**12))))
def test_entries_sum_to_the_transfers_and_a_text_cannot_break_the_file(
    moved: list[tuple[str, str, int]],
) -> None:
    org = 'a"\n2026-01-01 open Assets:X \\'
    day = date(2026, 11, 1)
    sums = [(day, "x", org, debit, credit, "2026-11", n, 1) for debit, credit, n in moved]
    journal = entries(sums)
    assert sum(entry.amount_nanousd for entry in journal) == sum(n for *_, n in moved)
    assert sum(entry.transfers for entry in journal) == len(moved)
    file = "".join(beancount_journal(journal))
    dated = [line for line in file.splitlines() if line.startswith("20")]
    assert len(dated) == len(journal) and all(" * " in line for line in dated)


def test_journal_of_a_month_is_what_the_ledger_moved_in_it(store: Store) -> None:
    month = period("2026-11")
    journal = journal_of(store, month)
    with store.read() as conn:
        moved = conn.execute(
            text(
                "SELECT count(*), sum(amount_nanousd) FROM transfer "
                "WHERE created_us >= :start AND created_us < :end"
            ),
            {"start": month.start_us, "end": month.end_us},
        ).one()
    assert moved[0] == sum(entry.transfers for entry in journal) > 0
    assert int(moved[1]) == sum(entry.amount_nanousd for entry in journal)
    rows = list(rows_of_journal(journal))
    assert sum(nanousd(str(row["amount_usd"])) for row in rows) == int(moved[1])
    kinds = {row["kind"] for row in rows}
    assert {"invoice", "rounding", "payment", "payment_applied"} <= kinds
    assert journal_of(store, period("2020-01")) == []


def test_own_accounts_come_before_those_of_the_default(store: Store) -> None:
    own = {
        "org:*:receivable": "Assets:Trade",
        "org:org_1:unbilled": "Assets:Big",
        "strange": "Equity:X",
    }
    accounts = with_own(own)
    assert account_for("org:org_1:receivable", accounts) == "Assets:Trade"
    assert account_for("org:org_1:unbilled", accounts) == "Assets:Big"
    assert account_for("org:org_2:unbilled", accounts) == "Assets:Unbilled"
    assert account_for("strange", accounts) == "Equity:X"
    file = "".join(beancount_journal(journal_of(store, period("2026-11"), accounts), accounts))
    assert "open Assets:Trade USD" in file and "Assets:Receivable" not in file
    for wrong in ({"org:**:x": "Assets:A"}, {"": "Assets:A"}, {"a b": "Assets:A"}, {"a": "assets"}):
        with pytest.raises(ValueError):
            with_own(wrong)


def test_bean_check_accepts_the_journal(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "journal.beancount"
    file.write_text("".join(beancount_journal(journal_of(store, period("2026-11")))))
    done = subprocess.run([str(BEAN_CHECK), str(file)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_late_usage_is_in_the_month_in_which_it_is_booked_and_says_its_own(store: Store) -> None:
    book(store, call(store, "req_late", IN_OCTOBER_US))
    journal = journal_of(store, period("2026-11"))
    charges = {entry.service_month for entry in journal if entry.kind == "charge"}
    assert charges == {"2026-10"}
    assert {entry.service_month for entry in journal if entry.kind == "payment"} == {"2026-11"}
    assert {row["service_month"] for row in rows_of_journal(journal)} == {"2026-10", "2026-11"}


def test_receivables_are_what_is_due_by_age(store: Store) -> None:
    (row,) = receivables(store, IN_NOVEMBER_US)
    due = sum(result.due_nanousd for result in list_invoices(store, now_us=IN_NOVEMBER_US))
    assert (row.org, row.due_cents * 10**7, row.by_age["current"]) == ("org_1", due, 60)
    (row,) = receivables(store, IN_NOVEMBER_US + 31 * DAY_US)
    assert row.by_age["days_31_60"] == row.due_cents == 60


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 9), st.integers(0, 2 * NOW_US))),
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 9)),
)
def test_ages_share_out_what_is_due(
    owed: list[tuple[str, int, int]], on_account: dict[str, int]
) -> None:
    rows = by_age((OpenInvoice(*each) for each in owed), on_account.items(), NOW_US)
    assert sum(row.due_cents for row in rows) == sum(cents for _, cents, _ in owed)
    assert sum(row.on_account_cents for row in rows) == sum(on_account.values())


@pytest.mark.parametrize(
    ("days", "age"),
    [(-1, "current"), (0, "current"), (1, "days_1_30"), (30, "days_1_30"), (31, "days_31_60")],
)
def test_age_in_days(days: int, age: str) -> None:
    assert age_of(NOW_US - days * DAY_US, NOW_US) == age
    assert age_of(NOW_US - 91 * DAY_US, NOW_US) == "days_over_90"
