"""What is left alone is shown with its reason and its next probe, what people must mend first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.console.breakers import REASONS, breaker_rows
from routing.health.breaker import OF_A_PLACE, Breaker, BreakerState, Told
from routing.health.failures import OF_THE_CALL, FailureKind

NOW_S = 1_000.0


def after(*failures: FailureKind, retry_after_s: float | None = None) -> Breaker:
    breaker = Breaker()
    for kind in failures:
        breaker = breaker.after(Told(NOW_S, NOW_S, kind, retry_after_s), OF_A_PLACE)
    return breaker


def test_each_reason_has_words() -> None:
    assert set(REASONS) == set(FailureKind) - OF_THE_CALL


def test_a_refused_key_comes_first_and_says_when_it_is_tried() -> None:
    breakers = {
        "pool:a": after(*[FailureKind.RESET] * 5),
        "replica:r1": after(FailureKind.COOL_DOWN, retry_after_s=7.0),
        "account:acme/eu/ACME_KEY": after(FailureKind.REFUSED_US),
        "pool:well": Breaker(),
    }
    rows = breaker_rows(breakers, NOW_S)
    assert [(row.kind, row.name, row.state) for row in rows] == [
        ("provider", "acme, eu, ACME_KEY", "open"),
        ("pool", "a", "open"),
        ("replica", "r1", "cooling"),
    ]
    assert [row.is_ours for row in rows] == [True, False, False]
    assert [row.next_probe for row in rows] == ["in 5.00 s", "in 1.00 s", "in 7.00 s"]
    assert "401" in rows[0].reason


def test_a_region_or_a_key_that_is_not_named_is_left_out() -> None:
    rows = breaker_rows({"account:acme/-/-": after(FailureKind.REFUSED_US)}, NOW_S)
    assert rows[0].name == "acme"


@given(
    st.lists(st.sampled_from(sorted(set(FailureKind) - OF_THE_CALL)), max_size=30),
    st.floats(0, 300),
)
def test_a_row_is_there_until_the_breaker_is_closed(
    failures: list[FailureKind], passed_s: float
) -> None:
    breaker, now_s = after(*failures), NOW_S + passed_s
    rows = breaker_rows({"pool:a": breaker}, now_s)
    assert bool(rows) == (breaker.state(now_s) is not BreakerState.CLOSED)
    for row in rows:
        assert row.reason and (row.next_probe == "now") == (row.state == "half_open")
