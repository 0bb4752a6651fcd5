"""Laws of credits in the ledger: whatever arrives, however often and in whatever order, grants pay
for the best record of each call, never more than they have, and the rest is owed."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from billing.credits.credit import Category, Grant, split
from billing.credits.grants import StoredGrant, book_ends, every, give, line_of
from billing.db.engine import Store
from billing.limits.keys import SHARDS
from billing.queries import accounts
from billing.types import OpenedCall, SettledCall, UsageSource
from billing.verify import verify
from billing.writer import marks
from tests.billing.calls import ADMITTED_US, opened_call
from tests.laws.examples import examples
from tests.laws.ledgers import fresh
from tests.laws.test_ledger_laws import LAW, NOW_US, deliver, ended, lives, template, usages

__all__ = ["template"]

GIVEN_US = ADMITTED_US - 1_000
ORGS = ("org_0", "org_1")
TIMES: list[dict[str, Any]] = [
    {"effective_us": GIVEN_US},
    {"effective_us": ADMITTED_US, "expires_us": ADMITTED_US + 1},
    {"effective_us": GIVEN_US, "expires_us": ADMITTED_US},
    {"effective_us": ADMITTED_US + 1},
]
"""Of a grant: two in which it pays for these calls, and two in which it does not."""
FEWER = settings(LAW, max_examples=examples(15))


@st.composite
def granted(draw: st.DrawFn, orgs: tuple[str, ...] = ORGS) -> list[Grant]:
    """Some that pay for little, some that do not pay for these calls, some that end soon."""
    return [
        Grant(
            grant_id=f"g{number}",
            org=draw(st.sampled_from(orgs)),
            category=draw(st.sampled_from(Category)),
            amount_nanousd=draw(st.integers(1, 10**6) | st.integers(10**6, 10**8)),
            priority=draw(st.integers(0, 2)),
            created_us=GIVEN_US,
            **draw(st.sampled_from(TIMES)),
            models=draw(st.sampled_from([(), (), ("tale-large",), ("tale-small",)])),
        )
        for number in range(draw(st.integers(0, 5)))
    ]


def give_all(store: Store, grants: list[Grant]) -> None:
    for grant in grants:
        give(store, grant, created_by="test", now_us=GIVEN_US)


def stands(store: Store) -> tuple[list[StoredGrant], list[dict[str, Any]]]:
    return every(store), accounts(store)


def owed(store: Store, org: str) -> int:
    rows = {row["code"]: row for row in accounts(store)}
    row = rows.get(f"org:{org}:unbilled")
    return row["debits"] - row["credits"] if row else 0


@FEWER
@given(
    grants=granted(),
    life=lives(),
    cuts=st.lists(st.integers(1, 6), max_size=8),
)
def test_any_delivery_keeps_every_law_and_again_changes_nothing(
    template: Any,
    grants: list[Grant],
    life: tuple[list[OpenedCall | SettledCall], dict[str, SettledCall]],
    cuts: list[int],
) -> None:
    deliveries, best = life
    with fresh(template) as store:
        give_all(store, grants)
        ceilings = {org: line_of(store, org).ceiling(["other"], ADMITTED_US, 0) for org in ORGS}
        deliver(store, deliveries, list(cuts))
        report = verify(store, now_us=NOW_US)
        assert report.ok, report.as_text()
        for org in ORGS:
            spent = sum(call.amount_nanousd for call in best.values() if call.org == org)
            burned = line_of(store, org).cleared_nanousd
            assert owed(store, org) == spent - burned >= 0
            after = line_of(store, org).ceiling(["other"], ADMITTED_US, 0)
            assert after >= ceilings[org], "usage never lowers a ceiling"
        before = stands(store)
        deliver(store, deliveries, [2, 2, 2])
        assert stands(store) == before
        with store.write() as conn:
            marks.caught_up(conn, SHARDS, NOW_US)
        book_ends(store, NOW_US)
        for given_grant in every(store):
            ends_us = given_grant.grant.ends_us
            assert ends_us is None or given_grant.left_nanousd == 0
        report = verify(store, now_us=NOW_US)
        assert report.ok, report.as_text()


@FEWER
@given(
    grants=granted(("org_0",)),
    estimates=st.lists(usages, max_size=3, unique_by=lambda usage: usage.total),
    exact=usages,
    data=st.data(),
)
def test_any_order_of_the_records_of_a_call_gives_the_same_net(
    template: Any, grants: list[Grant], estimates: list[Any], exact: Any, data: st.DataObject
) -> None:
    """What each grant pays is what it would pay for the exact record alone."""
    how = {"ended_us": ADMITTED_US + 2}
    best = ended("req_0", exact, UsageSource.EXACT, "org_0", how)
    records: list[OpenedCall | SettledCall] = [opened_call("req_0", org="org_0"), best]
    for usage in estimates:
        records.append(ended("req_0", usage, UsageSource.ESTIMATED, "org_0", how))
    order = data.draw(st.permutations(records + data.draw(st.lists(st.sampled_from(records)))))
    with fresh(template) as store:
        give_all(store, grants)
        deliver(store, list(order), data.draw(st.lists(st.integers(1, 3), max_size=4)))
        left = {grant.grant_id: grant.amount_nanousd for grant in grants}
        for burn in split(
            best.amount_nanousd, grants, left, model=best.model, admitted_us=best.admitted_us
        ):
            left[burn.grant_id] -= burn.amount_nanousd
        assert {found.grant.grant_id: found.left_nanousd for found in every(store)} == left
