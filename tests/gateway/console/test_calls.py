"""A row says what a call was, where it went and why, in few words."""

from __future__ import annotations

from typing import Any

from billing.queries import DecidedCall
from billing.usage.tables import UsageRecord
from gateway.console.calls import NOTHING, DecisionWords, call_rows, decision_words
from gateway.decisions.explained import ExplainedDecision, in_older_words

NOW_US = 1_790_000_000_000_000
BOTH = {
    "model": "small",
    "variant": "fp16",
    "capacity_class": "reserved",
    "tier": "default",
    "eligible": True,
    "score_nanousd": 1209,
    "cost_nanousd": 1200,
    "wait_s": 0.0,
}
WARM = BOTH | {"pool": "small-reserved", "reason": "warm", "terms": "run 1200 + quality 9"}
COLD = BOTH | {"pool": "small-spot", "reason": "cold, ready in about 8.0 s: run 7"}
"""As records had it until 0.1: the sum behind the words."""


def used(**changes: Any) -> UsageRecord:
    values: dict[str, Any] = {
        "rid": "req_01a1fadb658b635afd77c8ab963763b2",
        "org": "org_1",
        "project": "proj_1",
        "key": "key_1",
        "gateway": "gw-1",
        "model_requested": "auto",
        "model": "small",
        "variant": "fp16",
        "pool": "small-reserved",
        "capacity_class": "reserved",
        "tier": "default",
        "batch": False,
        "status": "answered",
        "finish_reason": "stop",
        "error_code": None,
        "source": "exact",
        "input": 1200,
        "cached_input": 16,
        "output": 56,
        "price_version": "pv_1",
        "input_nanousd": 400,
        "cached_input_nanousd": 20,
        "output_nanousd": 280,
        "request_nanousd": 0,
        "amount_nanousd": 700,
        "month": "202609",
        "admitted_us": NOW_US - 2_000_000,
        "first_token_us": NOW_US - 1_900_000,
        "ended_us": NOW_US - 1_000_000,
        "ingested_us": NOW_US - 900_000,
    }
    return UsageRecord(**(values | changes))


def explain(call: DecidedCall) -> ExplainedDecision:
    return in_older_words(call.decision)


def test_row_has_names_counts_times_and_cost() -> None:
    call = DecidedCall(used(), {"candidates": [WARM, COLD]})
    (row,) = call_rows(
        [call], {"org_1": "Kestrel", "key_1": "prod"}.__getitem__, explain, now_us=NOW_US
    )
    assert (row.organization, row.key, row.asked_for) == ("Kestrel", "prod", "auto")
    assert (row.input, row.cached_input, row.output) == ("1,200", "16", "56")
    assert (row.ttft, row.duration, row.cost.text) == ("100 ms", "1.00 s", "0.0000007")
    assert row.short == "req_…963763b2"


def test_decision_in_words_is_that_of_the_pool_that_served() -> None:
    candidates = in_older_words({"candidates": [WARM, COLD]})
    words = decision_words(used(), candidates)
    assert words.summary == "warm, the best of 2 candidates"
    assert words.sum == "run 1200 + quality 9 nano-USD"
    spot = decision_words(used(pool="small-spot"), candidates)
    assert spot.summary == "cold, ready in about 8.0 s, number 2 of 2 candidates"
    assert (
        decision_words(used(), in_older_words({"candidates": [WARM]})).summary
        == "warm, the only candidate"
    )


def test_call_without_a_decision_or_outside_of_it_says_so() -> None:
    assert decision_words(used(), in_older_words({})).summary == "no decision is on record"
    elsewhere = decision_words(used(pool="large-spot"), in_older_words({"candidates": [WARM]}))
    assert elsewhere.summary == "took over from what was decided at first"


def test_words_of_a_call_outlive_the_record_of_its_decision() -> None:
    gone = in_older_words({})
    kept = used(rule="flex", policy_revision=3, reason="warm, the best of 4 candidates")
    assert decision_words(kept, gone) == DecisionWords("warm, the best of 4 candidates", "")


def test_call_that_nobody_served_has_no_first_token_and_no_pool() -> None:
    call = DecidedCall(
        used(pool="", first_token_us=None, status="failed", error_code="server_is_overloaded"),
        {"candidates": [COLD]},
    )
    (row,) = call_rows([call], str, explain, now_us=NOW_US)
    assert (row.pool, row.ttft, row.problem) == (NOTHING, NOTHING, "server_is_overloaded")
    assert row.decision.summary.startswith("cold")
