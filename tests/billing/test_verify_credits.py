"""`verify` names the row that breaks a law of credits; each test breaks one, behind triggers."""

from __future__ import annotations

import pytest

from billing.db.engine import Store
from billing.ledger.report import Outcome, Report
from billing.types import UsageSource
from billing.verify import verify
from tests.billing.credits.test_grants import (
    LATER_US,
    book,
    book_ends,
    call,
    caught_up,
    given,
    grant,
)
from tests.billing.test_verify import tamper


@pytest.fixture
def store(either_store: Store) -> Store:
    return either_store


def report(store: Store) -> Report:
    return verify(store, now_us=LATER_US)


def broken(store: Store, check: str) -> str:
    """What the check says first."""
    (found,) = [one for one in report(store).checks if one.name == check]
    assert found.outcome is Outcome.BROKEN, found
    return found.detail


def lived(store: Store) -> None:
    """Grants that pay, are corrected, and end."""
    given(store, grant("a", 700_000, expires_us=LATER_US - 400_000_000), grant("b", 10**9))
    book(store, call(store, "req_1", 400, source=UsageSource.ESTIMATED), call(store, "req_2"))
    book(store, call(store, "req_1", 100), call(store, "req_3", model="tale-small"))
    caught_up(store, LATER_US)
    book_ends(store, LATER_US)
    book(store, call(store, "req_4"))


def test_a_ledger_with_credits_keeps_every_law(store: Store) -> None:
    lived(store)
    told = report(store)
    assert told.ok, told.as_text()
    counted = {check.name: check.checked for check in told.checks if check.name.startswith("I7")}
    assert counted["I7 grants_pay_what_they_have"] == 2
    assert counted["I7 credits_cleared"] == 1
    assert counted["I7 burn_order"] >= 6


@pytest.mark.parametrize(
    ("statement", "check", "named"),
    [
        (
            "UPDATE transfer SET amount_nanousd = 5 WHERE transfer_id = 'grant:b'",
            "I7 grants_pay_what_they_have",
            "org:org_1:grant:b",
        ),
        (
            "DELETE FROM credit_grant WHERE grant_id = 'b'",
            "I7 grants_pay_what_they_have",
            "there is no such grant",
        ),
        (
            "UPDATE transfer SET amount_nanousd = 2000000000 WHERE transfer_id = 'req_4:burn:1:b'",
            "I7 grants_pay_what_they_have",
            "more was taken",
        ),
        (
            "UPDATE credit_standing SET cleared_nanousd = cleared_nanousd + 1",
            "I7 credits_cleared",
            "org_1",
        ),
        (
            "UPDATE transfer SET kind = 'burn', debit_account = 'org:org_1:grant:b' "
            "WHERE transfer_id = 'req_2:burn:1:a'",
            "I7 burn_order",
            "req_2",
        ),
        (
            "UPDATE credit_grant SET priority = 99 WHERE grant_id = 'a'",
            "I7 burn_order",
            "req_1 record 1",
        ),
    ],
)
def test_the_row_that_breaks_a_law_of_credits_is_named(
    store: Store, statement: str, check: str, named: str
) -> None:
    lived(store)
    tamper(store, statement)
    assert named in broken(store, check)


def test_a_grant_that_paid_outside_of_its_terms_is_named(store: Store) -> None:
    lived(store)
    tamper(store, "UPDATE credit_grant SET models = '[\"tale-small\"]' WHERE grant_id = 'b'")
    assert "burned" in broken(store, "I7 burn_order")
