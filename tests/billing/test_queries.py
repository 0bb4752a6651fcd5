"""What the ledger answers about calls and usage."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from billing.db.engine import Store
from billing.queries import (
    GroupBy,
    UsageRecord,
    accounts,
    call_by_rid,
    known,
    newest_calls,
    open_call,
    recent_decided,
    recent_transfers,
    spent_by_scopes,
    summed,
    timings,
    usage_summary,
)
from billing.types import Attempt, UsageSource
from billing.usage.rollup import HOUR_US
from billing.usage.store import CallFilter
from tests.billing.calls import opened_call
from tests.billing.invoices.test_invoices import IN_OCTOBER_US, book, call
from tests.billing.plans import SORTED, accesses

DAY_US = 86_400_000_000
FIRST_US = IN_OCTOBER_US - 3 * DAY_US
SPAN = CallFilter(from_us=1, to_us=IN_OCTOBER_US)


@pytest.fixture
def booked(either_store: Store) -> Store:
    return filled(either_store)


def filled(store: Store) -> Store:
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


def test_newest_calls_come_first(booked: Store) -> None:
    assert [call.rid for _, call in newest_calls(booked, 10)] == ["req_3", "req_2", "req_1"]
    assert [call.rid for _, call in newest_calls(booked, 1, CallFilter("org_1"))] == ["req_2"]


def test_calls_of_a_span_page_back_through_those_that_ended_together(booked: Store) -> None:
    """Each where its first record ended, and by its best one."""
    seen: list[tuple[int, UsageRecord]] = []
    span = CallFilter(from_us=FIRST_US, to_us=FIRST_US + DAY_US + HOUR_US)
    while page := newest_calls(
        *(booked, 1, span),
        before=(seen[-1][0], seen[-1][1].rid) if seen else None,
    ):
        seen += page
    assert [record.rid for _, record in seen] == ["req_3", "req_2", "req_1"]
    assert seen[0][0] == seen[1][0] > seen[2][0]
    assert seen[2][1].source == "exact"
    nobody = CallFilter(from_us=FIRST_US + HOUR_US, to_us=FIRST_US + DAY_US)
    assert newest_calls(booked, 9, nobody) == []


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
    assert set(found) == {"req_1", "req_2"}
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


def test_usage_is_kept_to_the_values_asked_for(booked: Store) -> None:
    both = usage_summary(booked, None, 0, IN_OCTOBER_US, only={GroupBy.KEY: ["key_1", "key_2"]})
    assert both[0].requests == 2
    one = {GroupBy.KEY: ["key_1", "key_2"], GroupBy.MODEL: ["tale-small"], GroupBy.BATCH: [False]}
    assert usage_summary(booked, "org_1", 0, IN_OCTOBER_US, only=one)[0].requests == 1
    assert usage_summary(booked, "org_2", 0, IN_OCTOBER_US, only=one)[0].requests == 0


def test_groups_come_in_pages_that_join_to_the_whole(booked: Store) -> None:
    by = [GroupBy.DAY, GroupBy.BATCH, GroupBy.ORG]
    cut_us = FIRST_US + DAY_US + 1  # the last hour is summed from its events
    whole = usage_summary(booked, None, FIRST_US - 1, cut_us, by)
    assert len(whole) == 3
    joined = usage_summary(booked, None, FIRST_US - 1, cut_us, by, limit=1)
    while rest := usage_summary(
        booked, None, FIRST_US - 1, cut_us, by, after=[*joined[-1].group.values()], limit=1
    ):
        joined += rest
    assert joined == whole


def test_call_counts_in_the_hour_of_its_first_record(booked: Store) -> None:
    later = call(booked, "req_5", FIRST_US + 2 * HOUR_US)
    book(booked, call(booked, "req_5", FIRST_US, source=UsageSource.ESTIMATED, output=1), later)
    hours = usage_summary(booked, "org_1", 0, FIRST_US + 3 * HOUR_US, [GroupBy.HOUR])
    assert [(hour.requests, hour.output) for hour in hours] == [(2, 56 + later.output)]


def test_correction_leaves_no_hour_without_calls_behind(booked: Store) -> None:
    estimated = call(booked, "req_5", FIRST_US, source=UsageSource.ESTIMATED, pool="lost")
    book(booked, estimated)
    assert len(usage_summary(booked, "org_1", 0, IN_OCTOBER_US, [GroupBy.POOL])) == 2
    book(booked, call(booked, "req_5", FIRST_US))
    (pool,) = usage_summary(booked, "org_1", 0, IN_OCTOBER_US, [GroupBy.POOL])
    assert (pool.group["pool"], pool.requests) == ("large-reserved", 3)


FROM_DAY_US, TO_DAY_US = (at_us - at_us % DAY_US for at_us in (FIRST_US, IN_OCTOBER_US))
HOURLY, DAILY = GroupBy.HOUR, GroupBy.DAY


@pytest.mark.parametrize("org", [None, "org_1"])
@pytest.mark.parametrize(
    ("width", "from_us", "to_us", "reads"),
    [
        (HOURLY, FROM_DAY_US, TO_DAY_US, {"usage_hour"}),
        (DAILY, FROM_DAY_US, TO_DAY_US, {"usage_day"}),
        (DAILY, FROM_DAY_US + HOUR_US, TO_DAY_US, {"usage_hour", "usage_day"}),
        (DAILY, FROM_DAY_US, TO_DAY_US + HOUR_US, {"usage_hour", "usage_day"}),
        (DAILY, FROM_DAY_US + HOUR_US, FROM_DAY_US + 2 * HOUR_US, {"usage_hour"}),
        (HOURLY, FIRST_US - 9, IN_OCTOBER_US - 9, {"usage_hour", "usage_event"}),
        (DAILY, FIRST_US - 9, IN_OCTOBER_US - 9, {"usage_day", "usage_hour", "usage_event"}),
        (HOURLY, FIRST_US - 9, FIRST_US - 8, {"usage_event"}),
        (DAILY, FROM_DAY_US - 9, FROM_DAY_US + 9, {"usage_event"}),
    ],
    ids=[
        "by the hour",
        "whole days",
        "from an hour on",
        "up to an hour",
        "within a day",
        "cut hours",
        "cut days",
        "within an hour",
        "around an hour",
    ],
)
def test_g46_usage_of_whole_hours_never_looks_into_the_log(
    booked: Store,
    org: str | None,
    width: GroupBy,
    from_us: int,
    to_us: int,
    reads: set[str],
) -> None:
    by = [width, GroupBy.KEY, GroupBy.STATUS]
    only = {GroupBy.MODEL: ["tale-large"], GroupBy.PROJECT: ["proj_1", "proj_2"]}
    found = accesses(booked, lambda: usage_summary(booked, org, from_us, to_us, by))
    found += accesses(booked, lambda: usage_summary(booked, org, from_us, to_us, by, only))
    at = {"usage_event": "ended_us", "usage_hour": "hour_us", "usage_day": "day_us"}
    into = [look for look in found if look.table in at]
    assert {look.table for look in into} == reads
    for look in into:
        begins_or_ends = look.columns == {at[look.table]}  # the first or the last instant there is
        assert at[look.table] in look.columns or "rid" in look.columns, found
        assert org is None or "org" in look.columns or begins_or_ends, found


def test_questions_about_all_organizations_read_their_days(booked: Store) -> None:
    by = [GroupBy.DAY, GroupBy.ORG, GroupBy.MODEL]
    only = {GroupBy.STATUS: ["answered"]}
    ask = partial(usage_summary, booked, None, FROM_DAY_US, TO_DAY_US, by, only)
    assert {look.table for look in accesses(booked, ask)} - {SORTED} == {"usage_org_day"}
    keys = usage_summary(booked, None, FROM_DAY_US, TO_DAY_US, [*by, GroupBy.KEY], only)
    assert summed(keys, by) == ask()


def test_what_was_spent_is_read_from_the_daily_sums(booked: Store) -> None:
    everybody = accesses(booked, lambda: spent_by_scopes(booked))
    assert {look.table for look in everybody} == {"usage_day"}
    one = accesses(booked, lambda: spent_by_scopes(booked, "org_1"))
    assert {look.table for look in one if look.led_by} >= {"usage_day"}


@pytest.mark.parametrize(
    "ask",
    [
        lambda store: recent_decided(store, 25),
        lambda store: newest_calls(store, 25, SPAN, before=(IN_OCTOBER_US, "req_2")),
        lambda store: newest_calls(store, 25, SPAN._replace(org="org_1", model="tale-small")),
        lambda store: newest_calls(store, 25, CallFilter("org_1")),
        lambda store: timings(store, 1, 2, 25),
        lambda store: recent_transfers(store, 25),
        lambda store: recent_transfers(store, 25, "org_1"),
        lambda store: call_by_rid(store, "req_1"),
        lambda store: known(store, ["req_1", "req_2"]),
    ],
    ids=[
        "recent_decided",
        "before",
        "of a model",
        "of one",
        "timings",
        "transfers",
        "transfers of one",
        "a call",
        "known",
    ],
)
def test_pages_for_people_are_led_by_an_index_into_the_log(
    booked: Store, ask: Callable[[Store], object]
) -> None:
    """A look without a condition walks an index in its order, up to the limit."""
    found = accesses(booked, lambda: ask(booked))
    log = [look for look in found if look.table in ("usage_event", "transfer", "call_record")]
    assert log
    sorted_by_hand = {look.statement for look in found if look.table == SORTED}
    for look in (look for look in log if not look.led_by):
        assert "LIMIT" in look.statement and look.statement not in sorted_by_hand, look
