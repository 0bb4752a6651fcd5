"""A provider's bill in the ledger, on both databases: posted once, and balanced."""

from __future__ import annotations

from billing import queries
from billing.bills.bill import day_of
from billing.bills.reconciliation import Reconciliation, reconcile
from billing.db.engine import Store
from billing.money import usd
from billing.verify import verify
from tests.billing.calls import ADMITTED_US
from tests.billing.costs.test_costs import NOW_US, OUTSIDE, booked, bought, settled

DAY = day_of(ADMITTED_US)
MODELS = {OUTSIDE: "their-tale"}
COST = 44 * 250 + 56 * 1_000
"""Nano-USD of one attempt: its tokens at the prices that it has frozen."""


def bill(nanousd: int, model: str = "their-tale") -> str:
    return f"day,model,usage_class,quantity,amount\n{DAY},{model},input,44,{usd(nanousd)}\n"


def posted(store: Store, text: str, *, dry_run: bool = False, at_us: int = 5) -> Reconciliation:
    return reconcile(store, "acme", text, models=MODELS, now_us=at_us, by="admin", dry_run=dry_run)


def balance(store: Store, code: str) -> int:
    rows = {row["code"]: row["debits"] - row["credits"] for row in queries.accounts(store)}
    found: int = rows.get(code, 0)
    return found


def test_bill_and_booked_attempts_differ_by_what_was_posted(either_store: Store) -> None:
    store = either_store
    booked(store, settled(store, "req_1", bought("cut"), bought()))
    looked = posted(store, bill(2 * COST + 7), dry_run=True)
    assert (looked.posted_us, looked.variance_nanousd) == (None, 7)
    assert balance(store, "variance:provider:acme") == 0, "to look posts nothing"
    first = posted(store, bill(2 * COST + 7))
    assert first.is_new and first.booked_nanousd == 2 * COST, "an attempt that failed is billed too"
    (line,) = first.lines
    assert [each[:3] for each in line.classes] == [("input", "44", "88"), ("output", "0", "112")]
    again = posted(store, bill(2 * COST + 7), at_us=9)
    assert not again.is_new and again.lines == first.lines and again.posted_us == 5
    assert balance(store, "variance:provider:acme") == 7
    assert balance(store, "payable:provider:acme") == -7
    mended = posted(store, bill(2 * COST - 3), at_us=11)
    assert mended.variance_nanousd == -10, "the last bill of a day stands"
    assert balance(store, "variance:provider:acme") == -3
    booked(store, settled(store, "req_2", bought()))
    late = posted(store, bill(2 * COST - 3) + "\n", at_us=12)
    assert late.variance_nanousd == -COST, "what was booked since is no cost beside the bill"
    other = posted(store, bill(5, "another"), at_us=13)
    assert [each.model for each in other.lines] == ["another", "their-tale"]
    assert 3 * COST + balance(store, "variance:provider:acme") == 5
    kinds = {row["kind"] for row in queries.recent_transfers(store, 100)}
    assert "variance" in kinds
    report = verify(store, now_us=NOW_US)
    assert report.ok and "B1 bills_of_providers (1)" in report.as_text(), report.as_text()
