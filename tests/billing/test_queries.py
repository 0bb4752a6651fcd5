"""What the ledger answers about calls and usage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import event

from billing.queries import (
    GroupBy,
    accounts,
    call_by_rid,
    known,
    known_rids,
    open_call,
    recent_calls,
    recent_decided,
    recent_transfers,
    spent_by_scopes,
    timings,
    usage_summary,
)
from billing.store.engine import Store
from billing.types import Attempt, UsageSource
from tests.billing.calls import opened_call
from tests.billing.test_invoices import IN_OCTOBER_US, book, call

DAY_US = 86_400_000_000
FIRST_US = IN_OCTOBER_US - 3 * DAY_US


@pytest.fixture
def booked(store: Store) -> Store:
    """Three calls of two organizations on two days, one of them corrected."""
    tried = [
        Attempt(pool="p", replica="r", started_us=1, ended_us=2, outcome="lost", output=3),
        Attempt(pool="q", replica="s", started_us=2, ended_us=3, outcome="answered", output=56),
    ]
    book(
        store,
        call(store, "req_1", FIRST_US, source=UsageSource.ESTIMATED, output=10),
        call(store, "req_1", FIRST_US, attempts=tried, decision={"rule": "r1"}),
        call(store, "req_2", FIRST_US + DAY_US, model="tale-small", key="key_2"),
        call(store, "req_3", FIRST_US + DAY_US, org="org_2", project="proj_2", key="key_3"),
        opened_call("req_4", admitted_us=FIRST_US),
    )
    return store


def test_a_call_is_shown_by_its_best_record(booked: Store) -> None:
    found = call_by_rid(booked, "req_1")
    assert found is not None
    assert (found.usage.source, found.usage.output) == ("exact", 56)
    assert [attempt["outcome"] for attempt in found.attempts] == ["lost", "answered"]
    assert found.decision == {"rule": "r1"}
    assert {transfer["kind"] for transfer in found.transfers} == {"charge", "reversal"}


def test_a_call_of_another_organization_is_not_shown(booked: Store) -> None:
    assert call_by_rid(booked, "req_3", org="org_1") is None
    assert call_by_rid(booked, "req_3", org="org_2") is not None
    assert call_by_rid(booked, "req_9") is None
    assert open_call(booked, "req_4", org="org_2") is None
    assert open_call(booked, "req_4", org="org_1") is not None


def test_recent_calls_come_newest_first_and_page_back(booked: Store) -> None:
    assert [record.rid for record in recent_calls(booked, 10)] == ["req_3", "req_2", "req_1"]
    assert [record.rid for record in recent_calls(booked, 1, "org_1")] == ["req_2"]
    older = recent_calls(booked, 10, before_us=FIRST_US + DAY_US)
    assert [(record.rid, record.source) for record in older] == [("req_1", "exact")]


def test_usage_is_summed_by_what_is_asked_for(booked: Store) -> None:
    days = usage_summary(booked, None, 0, IN_OCTOBER_US, [GroupBy.DAY])
    assert [day.requests for day in days] == [1, 2]
    assert [day.group["day"] % DAY_US for day in days] == [0, 0]
    models = usage_summary(booked, "org_1", 0, IN_OCTOBER_US, [GroupBy.MODEL, GroupBy.KEY])
    assert [(m.group["model"], m.group["key"], m.output) for m in models] == [
        ("tale-large", "key_1", 56),
        ("tale-small", "key_2", 56),
    ]
    (everything,) = usage_summary(booked, None, 0, IN_OCTOBER_US)
    assert everything.amount_nanousd == sum(day.amount_nanousd for day in days)


def test_a_range_without_calls_sums_to_nothing(booked: Store) -> None:
    assert usage_summary(booked, None, 0, 1, [GroupBy.MODEL]) == []
    (nothing,) = usage_summary(booked, None, 0, 1)
    assert (nothing.requests, nothing.amount_nanousd) == (0, 0)


def test_each_scope_has_spent_the_sum_of_its_calls(booked: Store) -> None:
    spent = spent_by_scopes(booked, "org_1")
    parts = spent["key:key_1"].total_nanousd + spent["key:key_2"].total_nanousd
    assert spent["org:org_1"].total_nanousd == spent["project:proj_1"].total_nanousd == parts
    assert "org:org_2" not in spent


def test_recovery_learns_what_is_on_record(booked: Store) -> None:
    found = known(booked, ["req_1", "req_2", "req_9"])
    assert set(found) == known_rids(booked, ["req_1", "req_2", "req_9"]) == {"req_1", "req_2"}
    assert found["req_1"].source is UsageSource.EXACT
    assert known(booked, []) == {}


def test_accounts_and_transfers_are_listed(booked: Store) -> None:
    codes = {account["code"] for account in accounts(booked)}
    assert codes == {"org:org_1:unbilled", "org:org_2:unbilled", "revenue:usage"}
    assert len(recent_transfers(booked, 10)) == 5
    assert len(recent_transfers(booked, 10, "org_2")) == 1


def test_list_of_calls_says_why_each_went_where_it_went(booked: Store) -> None:
    found = {call.usage.rid: call.decision for call in recent_decided(booked, 10)}
    assert found == {"req_1": {"rule": "r1"}, "req_2": {}, "req_3": {}}
    assert [call.usage.rid for call in recent_decided(booked, 1, "org_1")] == ["req_2"]


def test_timings_are_of_the_newest_calls_that_ended_in_the_range(booked: Store) -> None:
    everything = timings(booked, 0, IN_OCTOBER_US, 10)
    assert [found.ended_us for found in everything] == [FIRST_US + DAY_US] * 2 + [FIRST_US]
    assert len(timings(booked, 0, IN_OCTOBER_US, 1)) == 1
    assert timings(booked, FIRST_US, FIRST_US + DAY_US, 10) == everything[2:]


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: recent_decided(store, 25),
        lambda store: timings(store, 1, 2, 25),
        lambda store: usage_summary(store, None, 1, 2, [GroupBy.ORG]),
    ],
    ids=["recent_decided", "timings", "usage_summary"],
)
def test_pages_for_people_are_led_by_an_index_into_the_log(
    booked: Store, ask: Callable[[Store], object]
) -> None:
    """No look at a page reads the whole log: SQLite says how it would find the rows."""
    plans: list[str] = []

    def explain(conn: Any, _cursor: Any, statement: str, parameters: Any, *_rest: Any) -> None:
        if statement.startswith("SELECT"):
            rows = conn.connection.cursor().execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plans.extend(row[-1] for row in rows)

    event.listen(booked.engine, "before_cursor_execute", explain)
    ask(booked)
    log = [step for step in plans if "usage_event" in step or "call_record" in step]
    assert log
    assert all("USING INDEX" in step for step in log), plans
