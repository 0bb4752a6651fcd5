"""A call is told from its admission to its transfers, and its phases and amounts add up."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.prices.book import Prices, Unpriced
from billing.queries import CallRecord
from gateway.call.wait import WaitEnd
from gateway.console.pages.call.timeline import DECODE, LOST, PREFILL, TRIED, WAIT, timeline
from gateway.console.pages.call.view import ExplainView, explain_view
from gateway.decisions.explained import in_older_words
from tests.gateway.console.test_calls import NOW_US, used

PRICES = Prices("pv_1", "small", "default", False, 50_000_000, 12_500_000, 200_000_000)
CANDIDATE = {
    "pool": "small-reserved",
    "model": "small",
    "variant": "fp16",
    "capacity_class": "on_demand",
    "tier": "default",
    "eligible": True,
    "score_nanousd": 1209,
    "cost_nanousd": 1200,
    "wait_s": 0.0,
    "reason": "warm: run 1200 + quality 9",
}
TRANSFER = {
    "transfer_id": "req_1:charge:1",
    "kind": "charge",
    "debit_account": "org:org_1:unbilled",
    "credit_account": "revenue:usage",
    "amount_nanousd": 700,
    "booked_us": NOW_US,
}


def attempt(n: int, began_us: int, outcome: str = "answered") -> dict[str, Any]:
    return {
        "n": n,
        "pool": "small-reserved",
        "replica": f"r{n}",
        "started_us": NOW_US - 2_000_000 + began_us,
        "ended_us": NOW_US - 1_000_000,
        "outcome": outcome,
        "input": 1,
        "cached_input": 0,
        "output": 2,
        "kind": "first",
        "cost_nanousd": 1200,
        "served": False,
    }


def call(*attempts: dict[str, Any], **changes: Any) -> CallRecord:
    ruled_out = CANDIDATE | {"pool": "outside", "eligible": False, "reason": "no key for it"}
    second = CANDIDATE | {"pool": "small-spot", "wait_s": 8.0}
    decision = {"rule": "r", "policy_revision": 3, "candidates": [CANDIDATE, second, ruled_out]}
    return CallRecord(used(**changes), decision, attempts=list(attempts), transfers=[TRANSFER])


def view_of(call: CallRecord, prices: Prices | Unpriced) -> ExplainView:
    return explain_view(call, in_older_words(call.decision), prices, str, now_us=NOW_US)


def test_phases_are_waiting_lost_tries_first_token_and_answer() -> None:
    found = timeline(used(), [attempt(1, 10_000, "cut"), attempt(2, 60_000)])
    assert [(phase.kind, phase.length) for phase in found.phases] == [
        (WAIT, "10 ms"),
        (LOST, "50 ms"),
        (PREFILL, "40 ms"),
        (DECODE, "900 ms"),
    ]
    assert (found.total, found.booked_after) == ("1.00 s", "100 ms")
    assert found.phases[-1].note == "56 tokens, 62 a second"


def test_attempts_stand_over_the_length_of_the_call_with_why_and_what_they_cost() -> None:
    """A first one that a hedge overtook, and an answer that went on elsewhere."""
    overtaken = attempt(0, 0, "overtaken") | {"ended_us": NOW_US - 1_900_000}
    moved = attempt(1, 50_000, "moved") | {"kind": "hedge", "ended_us": NOW_US - 1_500_000}
    resumed = attempt(2, 500_000) | {"kind": "resume", "served": True}
    found = timeline(used(), [overtaken, moved, resumed])
    assert [(lane.name, lane.outcome, lane.length) for lane in found.lanes] == [
        ("First", "overtaken", "100 ms"),
        ("Hedge", "moved", "450 ms"),
        ("Resume", "answered", "500 ms"),
    ]
    assert [(lane.x, lane.width) for lane in found.lanes] == [(0, 10), (5, 45), (50, 50)]
    assert [lane.cost.text for lane in found.lanes] == ["0.0000012"] * 3
    assert [phase.kind for phase in found.phases] == [LOST, PREFILL, DECODE]
    assert found.phases[-1].note.endswith("1 move included")
    assert timeline(used(), [resumed]).lanes == (), "one attempt needs no lanes"


def test_a_hedge_that_was_late_loses_no_try_of_the_call() -> None:
    first = attempt(0, 10_000) | {"served": True}
    late = attempt(1, 60_000, "overtaken") | {"kind": "hedge"}
    found = timeline(used(), [first, late])
    assert [phase.kind for phase in found.phases] == [WAIT, PREFILL, DECODE]
    assert [lane.name for lane in found.lanes] == ["First", "Hedge"]


def test_call_without_a_token_or_without_a_try_has_fewer_phases() -> None:
    tried = timeline(used(first_token_us=None), [attempt(1, 10_000, "cut")])
    assert [phase.kind for phase in tried.phases] == [WAIT, TRIED]
    assert [phase.kind for phase in timeline(used(first_token_us=None), []).phases] == [WAIT]


@given(
    st.lists(st.integers(-(10**7), 10**7), max_size=4),
    st.none() | st.integers(-(10**7), 10**7),
    st.integers(0, 10**7),
)
def test_phases_fill_the_bar_whatever_the_clocks_say(
    begun: list[int], first: int | None, length: int
) -> None:
    record = used(
        ended_us=NOW_US - 2_000_000 + length,
        first_token_us=None if first is None else NOW_US + first,
    )
    found = timeline(record, [attempt(n, us) for n, us in enumerate(sorted(begun))])
    assert abs(sum(phase.width for phase in found.phases) - (100 if length else 0)) < 0.05


def test_candidates_stand_as_served_eligible_or_ruled_out() -> None:
    view = view_of(call(attempt(1, 0)), PRICES)
    assert [row.standing for row in view.candidates] == ["served", "eligible", "ruled out"]
    assert [row.wait for row in view.candidates][1] == "8.00 s"
    assert view.candidates[0].capacity_class == "on-demand"
    assert (view.rule, view.policy_revision) == ("r", "3")


def test_usage_has_the_frozen_prices_and_adds_up_to_the_cost() -> None:
    view = view_of(call(attempt(1, 0)), PRICES)
    assert [row.price and row.price.text for row in view.usage] == ["0.05", "0.0125", "0.20"]
    assert sum(Decimal(row.amount.text) for row in view.usage) == Decimal(view.cost.text)
    assert view.transfers[0].amount.text == view.cost.text == "0.0000007"


@pytest.mark.parametrize("end", [*WaitEnd, None])
def test_wait_says_how_often_it_was_decided_anew_and_what_came_of_it(end: WaitEnd | None) -> None:
    def said(**waited: Any) -> str:
        return view_of(call(attempt(1, 0), **waited), PRICES).wait

    words = said(wait_pool="small-spot", redecisions=7, wait_end=end)
    assert words.startswith("While it waited for small-spot it was decided anew 7 times. ")
    assert ("small-reserved" in words) == (end is WaitEnd.BETTER)
    assert "decided anew 1 time." in said(wait_pool="small-spot", redecisions=1, wait_end=end)
    assert said() == ""


def test_price_per_request_has_a_row_of_its_own() -> None:
    view = view_of(call(request_nanousd=9), PRICES)
    assert (view.usage[-1].name, view.usage[-1].units) == ("Request", "1")


def test_prices_that_are_not_in_memory_are_left_out_and_not_made_up() -> None:
    unknown = Unpriced("small", "default", False, "price version 'pv_1' is unknown")
    view = view_of(call(), unknown)
    assert [row.price for row in view.usage] == [None, None, None]
