"""What a scrape is told is what has ended, once each, whatever the labels are."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from billing.types import Attempt, AttemptKind, CallStatus, SettledCall
from gateway.errors import ApiError
from gateway.metrics import tally as tallying
from gateway.metrics.tally import DURATION_US, OTHER, TTFT_US, Tally
from gateway.metrics.text import Now, text
from tests.billing.calls import ADMITTED_US, opened_call, settled_call
from tests.routing.fleets import pool as pool_named

NOW = Now(
    gateway="gw-8080-1",
    open_calls=3,
    waiting={"p": 2},
    unsettled_calls=1,
    limiter_is_away=True,
    limiter_outages=5,
    redis_filled=0.25,
    spool_bytes=77,
    loop_lag_s=0.25,
    fleet_age_s=1.5,
    policy_version=3,
    decisions_lost=0,
    policy_is_broken=True,
    quality_version=2,
    quality_is_broken=False,
    replicas={("p", "WARM"): 4},
    pools={"p": pool_named("p", engine="simulated"), "q": pool_named("q")},
)


def call(**changes: Any) -> SettledCall:
    base = {field: getattr(SETTLED, field) for field in SETTLED.__struct_fields__}
    return SettledCall(**base | changes)


SETTLED = settled_call(opened_call())
CALLS = st.builds(
    call,
    model=st.sampled_from(["small", 'a"b\\c\nd']),
    tier=st.sampled_from(["default", "flex"]),
    pool=st.sampled_from(["", "p"]),
    status=st.sampled_from(CallStatus),
    input=st.integers(0, 9),
    cached_input=st.integers(0, 9),
    output=st.integers(0, 9),
    first_token_us=st.none() | st.integers(ADMITTED_US, ADMITTED_US + 10**8),
    ended_us=st.integers(ADMITTED_US, ADMITTED_US + 10**9),
)


def samples(tally: Tally) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text(tally, NOW).decode())
        for sample in family.samples
    }


def labelled(**labels: str) -> frozenset[tuple[str, str]]:
    return frozenset(labels.items())


@given(st.lists(CALLS, max_size=30))
def test_sums_are_those_of_the_calls(calls: list[SettledCall]) -> None:
    tally = Tally()
    for each in calls:
        tally(each)
    told = samples(tally)
    expected = Counter((c.model, c.tier, c.pool, str(c.status)) for c in calls)
    for (model, tier, pool, status), count in expected.items():
        labels = labelled(model=model, tier=tier, pool=pool, status=status)
        assert told["sluice_calls_total", labels] == count
    assert sum(v for (name, _), v in told.items() if name == "sluice_calls_total") == len(calls)
    for name in ("input", "cached_input", "output"):
        of_class = (
            value
            for (metric, labels), value in told.items()
            if metric == "sluice_tokens_total" and ("class", name) in labels
        )
        assert sum(of_class) == sum(getattr(c, name) for c in calls)


@given(st.lists(CALLS, min_size=1, max_size=30))
def test_buckets_hold_every_call_up_to_their_bound(calls: list[SettledCall]) -> None:
    tally = Tally()
    for each in calls:
        tally(each)
    told = samples(tally)
    for model in {c.model for c in calls}:
        own = [c for c in calls if c.model == model]
        lasted = [(c.ended_us - c.admitted_us) / 1e6 for c in own]
        first = [(c.first_token_us - c.admitted_us) / 1e6 for c in own if c.first_token_us]
        for name, seen, bounds in (
            ("sluice_call_duration_seconds", lasted, DURATION_US),
            ("sluice_time_to_first_token_seconds", first, TTFT_US),
        ):
            for bound in (*(us / 1e6 for us in bounds), float("inf")):
                le = "+Inf" if bound == float("inf") else str(bound)
                count = told[f"{name}_bucket", labelled(model=model, le=le)]
                assert count == sum(s <= bound for s in seen)
            assert told[f"{name}_sum", labelled(model=model)] == pytest.approx(sum(seen), abs=1e-3)
            assert told[f"{name}_count", labelled(model=model)] == len(seen)


def test_series_are_bounded_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallying, "SERIES_MAX", 5)
    tally = Tally()
    for number in range(50):
        tally(call(model=f"m{number}"))
    assert len(tally.ended) <= 5 + len(CallStatus)
    assert sum(ended.calls for ended in tally.ended.values()) == 50
    assert tally.ended[OTHER, OTHER, OTHER, str(SETTLED.status)].calls == 45


def test_errors_count_by_status_and_by_words_of_ours_alone() -> None:
    """A server outside may give its errors any code."""
    tally = Tally()
    for code in ("rate_limit_exceeded", "prompt: my secret", None):
        tally.refuse(ApiError(429, "no", code=code))
    assert tally.refused == {(429, "rate_limit_exceeded"): 1, (429, OTHER): 2}


def test_answers_that_moved_and_those_that_were_lost_are_counted() -> None:
    tally = Tally()
    tally(call())
    first = Attempt(pool="p", replica="r1", started_us=1, ended_us=2, outcome="answered")
    moved = replace(first, outcome="moved")
    tally(call(attempts=[moved, moved, first]))
    tally(call(attempts=[moved, first], error_code="upstream_disconnected"))
    told = samples(tally)
    assert told["sluice_moves_total", labelled(outcome="moved")] == 3
    assert told["sluice_moves_total", labelled(outcome="lost")] == 1


def test_attempts_count_by_kind_and_outcome() -> None:
    tally = Tally()
    first = Attempt(pool="p", replica="r1", started_us=1, ended_us=2, outcome="answered")
    tally(call(attempts=[first]))
    again = replace(first, kind=AttemptKind.RETRY)
    tally(call(attempts=[replace(first, outcome="unreachable"), again]))
    told = samples(tally)
    assert told["sluice_attempts_total", labelled(kind="first", outcome="answered")] == 1
    assert told["sluice_attempts_total", labelled(kind="first", outcome="unreachable")] == 1
    assert told["sluice_attempts_total", labelled(kind="retry", outcome="answered")] == 1


def test_calls_without_a_further_attempt_count_by_model_and_pool() -> None:
    tally = Tally()
    for pool in ("p", "p", "q"):
        tally.refuse_retry("m", pool)
    told = samples(tally)
    assert told["sluice_retries_refused_total", labelled(model="m", pool="p")] == 2
    assert told["sluice_retries_refused_total", labelled(model="m", pool="q")] == 1


def test_tokens_that_are_computed_again_count_for_each_move() -> None:
    """The prompt, and what had come of the answer until then."""
    tally = Tally()
    first = Attempt(
        pool="p", replica="r1", started_us=1, ended_us=2, outcome="moved", input=7, output=3
    )
    attempts = [first, replace(first, output=4), replace(first, outcome="answered", output=5)]
    tally(call(input=5, cached_input=2, output=12, attempts=attempts))
    assert samples(tally)["sluice_replayed_tokens_total", labelled()] == (7 + 3) + (7 + 7)


def test_nothing_of_a_tenant_is_told() -> None:
    tally = Tally()
    tally(call(org="org_secret", project="proj_secret", key="key_secret", rid="req_secret"))
    assert b"secret" not in text(tally, NOW)


def test_states_of_now_are_told() -> None:
    told = samples(Tally())
    assert told["sluice_open_calls", labelled()] == 3
    assert told["sluice_limiter_away", labelled()] == 1
    assert told["sluice_limiter_outages_total", labelled()] == 5
    assert told["sluice_waiting_calls", labelled(pool="p")] == 2
    assert told["sluice_replicas", labelled(pool="p", state="WARM")] == 4
    for name, simulated in (("p", "true"), ("q", "false")):
        labels = labelled(pool=name, model=NOW.pools[name].model, simulated=simulated)
        assert told["sluice_pool_info", labels] == 1
    assert told["sluice_spool_unconfirmed_bytes", labelled()] == 77
    assert told["sluice_loop_lag_seconds", labelled()] == 0.25
    assert any(name == "process_resident_memory_bytes" for name, _ in told)
