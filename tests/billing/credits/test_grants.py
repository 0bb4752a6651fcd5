"""Grants, what they pay of charges, and how they end, on a real SQLite and a real PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from billing.credits import grants as credit_grants
from billing.credits.credit import Category, CreditLine, Grant, SpendableGrant
from billing.credits.grants import (
    VOID_AFTER_US,
    CreditError,
    GrantConflict,
    StoredGrant,
    UnknownGrant,
    book_ends,
    every,
    give,
    line_of,
    one,
    void,
)
from billing.db.engine import Store
from billing.ledger.posting import CLOCK_SKEW_MAX_US
from billing.limits.keys import SHARDS
from billing.prices.rating import rate_frozen
from billing.prices.versions import load_book
from billing.queries import accounts, call_by_rid
from billing.types import OpenedCall, SettledCall, UsageSource
from billing.writer import marks
from tests.billing.calls import ADMITTED_US, opened_call, settled_call
from tests.billing.invoices.test_invoices import book as book_at

NOW_US = ADMITTED_US - 10_000_000
LATER_US = ADMITTED_US + 3_600_000_000


@pytest.fixture
def store(either_store: Store) -> Store:
    return either_store


def grant(grant_id: str = "g1", amount: int = 10**9, **terms: Any) -> Grant:
    given: dict[str, Any] = {
        "category": Category.PAID,
        "effective_us": NOW_US,
        "created_us": NOW_US,
    }
    return Grant(grant_id=grant_id, org="org_1", amount_nanousd=amount, **(given | terms))


def given(store: Store, *grants: Grant) -> None:
    for each in grants:
        give(store, each, created_by="test", now_us=NOW_US)


def call(store: Store, rid: str, output: int = 56, **changes: Any) -> SettledCall:
    made = settled_call(opened_call(rid), 0, output=output, **changes)
    charge = rate_frozen(
        load_book(store),
        model=made.model,
        tier=made.tier,
        batch=made.batch,
        usage=made.usage,
        price_version=made.price_version,
    )
    return settled_call(opened_call(rid), charge.amount_nanousd, output=output, **changes)


def book(store: Store, *payloads: SettledCall | OpenedCall, now_us: int = LATER_US) -> None:
    book_at(store, *payloads, now_us=now_us)


def left(store: Store) -> dict[str, int]:
    return {found.grant.grant_id: found.left_nanousd for found in every(store)}


def balance(store: Store, code: str) -> int:
    """Debits less credits."""
    rows = {row["code"]: row for row in accounts(store)}
    return rows[code]["debits"] - rows[code]["credits"] if code in rows else 0


def owed(store: Store) -> int:
    return balance(store, "org:org_1:unbilled")


def caught_up(store: Store, at_us: int) -> None:
    with store.write() as conn:
        marks.caught_up(conn, SHARDS, at_us)


# --- giving ------------------------------------------------------------------------------------


def test_a_paid_grant_is_cash_and_a_promotional_one_our_expense(store: Store) -> None:
    given(store, grant("paid", 7), grant("promo", 5, category=Category.PROMOTIONAL))
    assert balance(store, "cash") == 7
    assert balance(store, "expense:promotion") == 5
    assert balance(store, "org:org_1:grant:paid") == -7
    assert left(store) == {"paid": 7, "promo": 5}


def test_the_same_grant_again_changes_nothing_and_another_under_its_id_is_refused(
    store: Store,
) -> None:
    first, is_new = give(store, grant(), created_by="test", now_us=NOW_US)
    assert is_new
    later = grant(effective_us=NOW_US + 9, created_us=NOW_US + 9)
    again, is_new = give(store, later, created_by="other", now_us=NOW_US + 9)
    assert (again, is_new) == (first, False)
    assert balance(store, "cash") == first.grant.amount_nanousd
    for other in (
        grant(amount=1),
        grant(priority=1),
        grant(expires_us=LATER_US),
        grant(models=("m",)),
        grant(effective_us=NOW_US + 1),
        grant(category=Category.PROMOTIONAL),
        replace(grant(), org="org_2"),
    ):
        with pytest.raises(GrantConflict):
            give(store, other, created_by="test", now_us=NOW_US)


@pytest.mark.parametrize(
    "terms",
    [{"amount": 0}, {"amount": 2**63}, {"effective_us": NOW_US - 1}, {"expires_us": NOW_US}],
    ids=str,
)
def test_a_grant_that_cannot_be_is_refused(store: Store, terms: dict[str, Any]) -> None:
    with pytest.raises(CreditError):
        give(store, grant(**terms), created_by="test", now_us=NOW_US)
    assert every(store) == []


def test_grants_are_listed_from_the_oldest_page_by_page(store: Store) -> None:
    grants = [grant(f"g{n}", effective_us=NOW_US + n, created_us=NOW_US + n // 2) for n in range(5)]
    given(store, *grants)
    pages: list[list[StoredGrant]] = [every(store, "org_1", limit=2)]
    while len(pages[-1]) == 2:
        pages.append(every(store, "org_1", after=pages[-1][-1].grant.grant_id, limit=2))
    assert [found.grant for page in pages for found in page] == grants
    assert every(store, "nobody") == []
    with pytest.raises(UnknownGrant):
        one(store, "g9")


# --- paying ------------------------------------------------------------------------------------


def test_a_charge_is_paid_by_grants_in_their_order_and_the_rest_is_owed(store: Store) -> None:
    made = call(store, "req_1")
    amount = made.amount_nanousd
    given(store, grant("second", amount // 2), grant("first", 10, priority=1))
    book(store, made)
    assert left(store) == {"first": 0, "second": 0}
    assert owed(store) == amount - 10 - amount // 2
    assert balance(store, "revenue:usage") == -amount
    found = call_by_rid(store, "req_1")
    assert found is not None
    assert {t["transfer_id"]: t["amount_nanousd"] for t in found.transfers} == {
        "req_1:charge:1": amount,
        "req_1:burn:1:first": 10,
        "req_1:burn:1:second": amount // 2,
    }


def test_only_grants_in_force_when_the_call_was_admitted_pay_for_it(store: Store) -> None:
    given(
        store,
        grant("ended", expires_us=ADMITTED_US),
        grant("to come", effective_us=ADMITTED_US + 1),
        grant("of another model", models=("tale-small",)),
        grant("in force", 1, effective_us=ADMITTED_US, expires_us=ADMITTED_US + 1),
    )
    book(store, call(store, "req_1"))
    assert {name for name, nanousd in left(store).items() if nanousd == 0} == {"in force"}


def test_a_call_that_is_free_and_an_organization_without_credits_burn_nothing(store: Store) -> None:
    given(store, replace(grant(), org="org_2"))
    book(store, call(store, "req_1"))
    assert left(store) == {"g1": 10**9}
    assert line_of(store, "org_1") == CreditLine("org_1")


@pytest.mark.parametrize("together", [True, False], ids=["one batch", "two batches"])
def test_a_correction_gives_back_what_was_burned_and_burns_anew(
    store: Store, together: bool
) -> None:
    estimated = call(store, "req_1", 400, source=UsageSource.ESTIMATED)
    exact = call(store, "req_1", 100)
    given(store, grant("a", exact.amount_nanousd + 5), grant("b", 10**9, priority=60))
    if together:
        book(store, estimated, exact)
    else:
        book(store, estimated)
        assert left(store)["a"] == 0
        book(store, exact, now_us=LATER_US - 5)  # whatever the clock does
    assert left(store) == {"a": 5, "b": 10**9}
    assert owed(store) == 0
    found = call_by_rid(store, "req_1")
    assert found is not None
    undone = {t["transfer_id"]: t["reverses_id"] for t in found.transfers if t["reverses_id"]}
    assert undone == {
        "req_1:reversal:1": "req_1:charge:1",
        "req_1:unburn:1:a": "req_1:burn:1:a",
        "req_1:unburn:1:b": "req_1:burn:1:b",
    }
    moved = [t["created_us"] for t in found.transfers if "burn" in t["transfer_id"]]
    assert len(set(moved)) == 2, "one instant for each record"
    book(store, estimated, exact, exact)
    assert left(store) == {"a": 5, "b": 10**9}


def test_usage_leaves_the_ceiling_where_it_is_and_owing_more_does_not_raise_it(
    store: Store,
) -> None:
    given(store, grant("a", 1_000), grant("b", 10**12))
    before = line_of(store, "org_1").ceiling(["tale-large"], ADMITTED_US, 0)
    assert before == 10**12 + 1_000
    for number in range(3):
        book(store, call(store, f"req_{number}"))
        line = line_of(store, "org_1")
        assert line.ceiling(["tale-large"], ADMITTED_US, 0) == before
        assert line.cleared_nanousd == sum(
            nanousd - left(store)[name] for name, nanousd in (("a", 1_000), ("b", 10**12))
        )


# --- ends --------------------------------------------------------------------------------------


def test_what_is_left_of_an_expired_grant_is_breakage_once(store: Store) -> None:
    ends_us = ADMITTED_US + 1_000
    given(
        store,
        grant("paid", 10**9, expires_us=ends_us),
        grant("promo", 10**9, expires_us=ends_us, category=Category.PROMOTIONAL, priority=60),
        grant("for ever", 77, priority=99),
    )
    made = call(store, "req_1")
    book(store, made)
    caught_up(store, ends_us + CLOCK_SKEW_MAX_US)
    assert book_ends(store, LATER_US) == 0, "the writer is not past it"
    caught_up(store, LATER_US)
    assert book_ends(store, LATER_US) == 2
    assert book_ends(store, LATER_US) == 0
    assert left(store) == {"paid": 0, "promo": 0, "for ever": 77}
    assert balance(store, "revenue:breakage") == made.amount_nanousd - 10**9
    assert balance(store, "expense:promotion") == 0


def test_an_open_call_that_may_use_a_grant_keeps_it(store: Store) -> None:
    ends_us = ADMITTED_US + 1_000
    given(store, grant(expires_us=ends_us))
    running = call(store, "req_1")
    book(store, opened_call("req_1"), opened_call("req_2", admitted_us=ends_us))
    caught_up(store, LATER_US)
    assert book_ends(store, LATER_US) == 0
    book(store, running)
    assert book_ends(store, LATER_US) == 1
    assert owed(store) == 0


def test_a_correction_after_the_end_gives_back_what_ends_again(store: Store) -> None:
    given(store, grant(expires_us=ADMITTED_US + 1))
    dear, cheap = call(store, "req_1", 400, source=UsageSource.ESTIMATED), call(store, "req_1", 1)
    book(store, dear)
    caught_up(store, LATER_US)
    assert book_ends(store, LATER_US) == 1
    book(store, cheap)
    assert left(store) == {"g1": dear.amount_nanousd - cheap.amount_nanousd}
    assert book_ends(store, LATER_US) == 1
    assert left(store) == {"g1": 0}
    assert balance(store, "revenue:breakage") == cheap.amount_nanousd - 10**9


def test_a_voided_grant_ends_a_moment_later_as_if_it_had_not_been_given(store: Store) -> None:
    given(store, grant("paid"), grant("promo", category=Category.PROMOTIONAL, priority=99))
    voided = void(store, "paid", voided_by="admin", now_us=NOW_US)
    assert voided.grant.ends_us == NOW_US + VOID_AFTER_US
    assert void(store, "paid", voided_by="other", now_us=LATER_US) == voided
    made = call(store, "req_1")
    book(store, made)
    assert left(store) == {"paid": 10**9, "promo": 10**9 - made.amount_nanousd}
    caught_up(store, LATER_US)
    assert book_ends(store, LATER_US) == 1
    assert balance(store, "cash") == 0
    void(store, "promo", voided_by="admin", now_us=LATER_US)
    with pytest.raises(UnknownGrant):
        void(store, "nobody", voided_by="admin", now_us=NOW_US)


def test_a_grant_that_has_ended_cannot_be_voided(store: Store) -> None:
    given(store, grant(expires_us=ADMITTED_US))
    with pytest.raises(GrantConflict):
        void(store, "g1", voided_by="admin", now_us=ADMITTED_US)


def test_a_line_tells_what_grants_have_left_until_they_are_booked_away(store: Store) -> None:
    given(store, grant("all", 5), grant("some", 6, models=("tale-small",), expires_us=ADMITTED_US))
    line = line_of(store, "org_1")
    assert sorted(line.grants, key=lambda part: part.left_nanousd) == [
        SpendableGrant(NOW_US, None, (), 5),
        SpendableGrant(NOW_US, ADMITTED_US, ("tale-small",), 6),
    ]
    void(store, "all", voided_by="admin", now_us=NOW_US)
    later = line_of(store, "org_1")
    assert later.moved_us > line.moved_us
    assert later.ceiling(["tale-small"], NOW_US, 0) == 11
    assert later.ceiling(["tale-small"], NOW_US + VOID_AFTER_US, 0) == 6
    assert later.ceiling(["tale-small"], ADMITTED_US, 0) == 0


def test_no_account_of_a_grant_is_overdrawn_even_by_hand(store: Store) -> None:
    given(store, grant(amount=5))
    with pytest.raises(Exception, match="may not change"), store.write() as conn:
        conn.execute(text("UPDATE account SET debits = 6 WHERE code = 'org:org_1:grant:g1'"))
    assert credit_grants.one(store, "g1").left_nanousd == 5
