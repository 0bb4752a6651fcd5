"""The laws of a breaker, over any events; then the examples that they do not say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from routing.health.breaker import (
    COOL_DOWN_S_MAX,
    OF_A_PLACE,
    QUICK,
    SET_UP,
    SLOWER,
    Breaker,
    BreakerState,
    Told,
    folded,
)
from routing.health.failures import OF_THE_CALL, OF_THE_SETTING_UP, FailureKind, is_of_place

RULES = OF_A_PLACE
START_S = 1_000_000.0
KINDS = st.none() | st.sampled_from(FailureKind)
STEP = st.tuples(
    st.floats(0, 40), st.floats(0, 15), KINDS, st.none() | st.floats(0, 2 * COOL_DOWN_S_MAX)
)


def told(steps: list[tuple[float, float, FailureKind | None, float | None]]) -> list[Told]:
    """Events in the order of their time; each attempt took so long."""
    events, at_s = [], START_S
    for passed_s, took_s, kind, retry_after_s in steps:
        at_s += passed_s
        events.append(Told(at_s, at_s - took_s, kind, retry_after_s))
    return events


EVENTS = st.lists(STEP, max_size=60).map(told)


def opened(steps: list[tuple[float, float, FailureKind | None, float | None]]) -> list[Told]:
    """The same, and a failure behind it that leaves the breaker open."""
    events = told(steps)
    at_s = max((each.at_s for each in events), default=START_S)
    later_s = max(at_s, folded(events, RULES).until_s)
    return [*events, Told(later_s, later_s, FailureKind.REFUSED_US)]


OPENED = st.lists(STEP, max_size=60).map(opened)


def failing(
    kind: FailureKind, times: int, *, from_s: float = START_S, every_s: float = 0.1
) -> list[Told]:
    instants = [from_s + every_s * number for number in range(times)]
    return [Told(at_s, at_s, kind) for at_s in instants]


@given(EVENTS, st.floats(0, 500))
def test_the_state_is_a_function_of_the_events(events: list[Told], later_s: float) -> None:
    assert folded(events, RULES) == folded(events, RULES)
    at_s = (events[-1].at_s if events else START_S) + later_s
    breaker = folded(events, RULES)
    state = breaker.state(at_s)
    next_s = breaker.next_probe_s(at_s)
    assert (next_s is not None) == (state in (BreakerState.OPEN, BreakerState.COOLING))
    assert next_s is None or next_s > at_s
    assert next_s is None or breaker.state(next_s) in (BreakerState.CLOSED, BreakerState.HALF_OPEN)


@given(EVENTS)
def test_g40_of_two_cool_downs_the_longer_one_stands_and_neither_is_a_failure(
    events: list[Told],
) -> None:
    cool_downs = [each for each in events if each.failure is FailureKind.COOL_DOWN]
    asked = [(each.at_s, each.retry_after_s) for each in cool_downs]
    ends = [at_s + min(COOL_DOWN_S_MAX, 1.0 if s is None else s) for at_s, s in asked]
    breaker, without = (
        folded(events, RULES),
        folded([each for each in events if each.failure is not FailureKind.COOL_DOWN], RULES),
    )
    assert breaker.cooling_until_s == max(ends, default=0.0)
    assert (breaker.openings, breaker.until_s, breaker.in_a_row) == (
        *(without.openings, without.until_s, without.in_a_row),
    )


@given(st.sampled_from(sorted(OF_THE_SETTING_UP)), st.floats(0, 10))
def test_g40_a_refusal_of_our_account_opens_at_once(kind: FailureKind, took_s: float) -> None:
    breaker = folded([Told(START_S, START_S - took_s, kind)], RULES)
    assert breaker.state(START_S) is BreakerState.OPEN
    assert breaker.reason is kind


@given(EVENTS)
def test_what_is_the_caller_s_own_never_opens(events: list[Told]) -> None:
    mild = [each for each in events if each.failure is None or not is_of_place(each.failure)]
    breaker = folded(mild, RULES)
    assert (breaker.openings, breaker.in_a_row, breaker.seconds) == (0, 0, ())


@given(EVENTS, st.sampled_from(sorted(filter(is_of_place, FailureKind))), st.integers(1, 12))
def test_pauses_grow_while_probes_fail_and_are_bounded(
    events: list[Told], kind: FailureKind, times: int
) -> None:
    breaker, at_s = folded(events, RULES), START_S + 100_000
    for each in failing(kind, RULES.in_a_row, from_s=at_s):
        breaker = breaker.after(each, RULES)
    pauses = []
    for _ in range(times):
        assert breaker.openings
        probe_s = max(breaker.until_s, at_s)
        breaker = breaker.after(Told(probe_s, probe_s, kind), RULES)
        pauses.append(breaker.until_s - probe_s)
    assert pauses == sorted(pauses)
    assert pauses[-1] <= max(QUICK.most_s, SLOWER.most_s, SET_UP.most_s) + 1e-3


@given(OPENED)
def test_what_was_sent_before_it_opened_neither_opens_longer_nor_closes(
    events: list[Told],
) -> None:
    breaker = folded(events, RULES)
    assert breaker.openings
    before_s = breaker.until_s - 0.001
    for kind in (None, FailureKind.RESET, FailureKind.REFUSED_US):
        assert breaker.after(Told(breaker.until_s + 50, before_s, kind), RULES) == breaker


@given(OPENED)
def test_three_probes_that_answer_close_it_and_its_share_grows_slowly(events: list[Told]) -> None:
    breaker = folded(events, RULES)
    assert breaker.openings
    at_s = max(breaker.until_s, breaker.cooling_until_s)
    for number in range(breaker.successes, RULES.probes):
        assert breaker.state(at_s) is BreakerState.HALF_OPEN
        assert breaker.probes_max == number + 1
        assert breaker.share(at_s, RULES) == 0.0
        breaker = breaker.after(Told(at_s, at_s), RULES)
    assert breaker.state(at_s) is BreakerState.CLOSED
    shares = [breaker.share(at_s + passed_s, RULES) for passed_s in (0, 10, 20, 30, 60)]
    assert shares == sorted(shares) and 0 < shares[0] < 1 and shares[-2:] == [1.0, 1.0]


@given(EVENTS, EVENTS)
def test_gateways_that_hear_each_other_agree(one: list[Told], other: list[Told]) -> None:
    a, b = folded(one, RULES), folded(other, RULES)
    at_s = START_S + 10_000
    a_hears, b_hears = a.hears(b.report), b.hears(a.report)
    assert a_hears.cooling_until_s == b_hears.cooling_until_s
    if a.changed_s != b.changed_s:
        assert a_hears.report == b_hears.report
        assert a_hears.state(at_s) is b_hears.state(at_s)
    assert a.hears(a.report) == a, "its own word says nothing new"


def test_failures_in_a_row_open_it_and_a_success_between_starts_the_row_again() -> None:
    row = failing(FailureKind.SERVER_ERROR, RULES.in_a_row)
    assert folded(row, RULES).openings == 1
    assert folded(row[:-1], RULES).openings == 0
    at_s = row[-2].at_s
    between = [*row[:-1], Told(at_s, at_s), *failing(FailureKind.RESET, 4, from_s=at_s)]
    assert folded(between, RULES).openings == 0


def test_half_of_twenty_calls_that_fail_open_it() -> None:
    breaker = Breaker()
    for number in range(20):
        at_s = START_S + number / 10
        kind = FailureKind.SERVER_ERROR if number % 2 == 0 else None
        assert breaker.openings == 0
        breaker = breaker.after(Told(at_s, at_s, kind), RULES)
    assert breaker.openings == 0, "the last one answered"
    at_s = START_S + 2
    assert breaker.after(Told(at_s, at_s, FailureKind.RESET), RULES).openings == 1


def test_a_place_that_never_failed_is_not_remembered() -> None:
    at_s, new = START_S, Breaker()
    assert new.after(Told(at_s, at_s), RULES) is new
    assert new.is_forgettable(at_s, RULES)
    assert all(new.after(Told(at_s, at_s, kind), RULES) is new for kind in OF_THE_CALL)
