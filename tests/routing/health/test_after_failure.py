"""The laws of what follows a failure, over all of the table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from routing.health.after_failure import Circumstances, Step, Why, after_failure
from routing.health.failures import OF_THE_CALL, OF_THE_SETTING_UP, Failure, FailureKind


def failures(kinds: Iterable[FailureKind]) -> st.SearchStrategy[Failure]:
    return st.builds(Failure, st.sampled_from(sorted(kinds)), st.none() | st.floats(0, 20))


FAILURES = failures(FailureKind)
AT = st.builds(
    Circumstances,
    other_place=st.booleans(),
    fallback_model=st.booleans(),
    times_asked=st.integers(1, 4),
    left_s=st.floats(-5, 60),
    retries_left=st.integers(-1, 3),
    has_budget=st.booleans(),
    retry_after_s_max=st.floats(0, 10),
)
ALONE = Circumstances(
    other_place=False, fallback_model=False, times_asked=1, left_s=60.0, retries_left=8
)


@given(failures(OF_THE_CALL), AT)
def test_g38_a_fault_of_the_caller_is_never_retried(failure: Failure, at: Circumstances) -> None:
    follows = after_failure(failure, at)
    if failure.kind is FailureKind.CONTEXT_LENGTH and at.fallback_model and at.left_s > 0:
        assert follows.step is Step.FALLBACK_MODEL, "a larger model that the policy names"
    else:
        assert (follows.step, follows.why) == (Step.GIVE_UP, Why.CALLERS)


@given(FAILURES, AT)
def test_deadline_and_bounds_win(failure: Failure, at: Circumstances) -> None:
    follows = after_failure(failure, at)
    if follows.step is not Step.GIVE_UP:
        assert at.left_s > 0
        assert follows.wait_s < at.left_s
    if failure.kind not in OF_THE_CALL and (at.retries_left <= 0 or not at.has_budget):
        assert follows.step is Step.GIVE_UP


@given(failures({FailureKind.SILENT, *OF_THE_SETTING_UP}), AT)
def test_a_silent_server_and_one_that_refuses_us_are_never_asked_twice(
    failure: Failure, at: Circumstances
) -> None:
    assert after_failure(failure, at).step not in (Step.ONCE_MORE, Step.WAIT)


@given(FAILURES, AT)
def test_no_place_is_asked_more_than_twice_by_a_call(failure: Failure, at: Circumstances) -> None:
    follows = after_failure(failure, replace(at, times_asked=max(2, at.times_asked)))
    assert follows.step not in (Step.ONCE_MORE, Step.WAIT)


@given(FAILURES, AT)
def test_another_place_of_the_same_model_comes_first_and_at_once(
    failure: Failure, at: Circumstances
) -> None:
    follows = after_failure(failure, replace(at, other_place=True))
    assert follows.step in (Step.ANOTHER_PLACE, Step.GIVE_UP) or (
        failure.kind is FailureKind.CONTEXT_LENGTH
    )
    if follows.step is Step.ANOTHER_PLACE:
        assert follows.wait_s == 0


@given(FAILURES, AT)
def test_a_call_without_fallbacks_never_goes_to_another_model(
    failure: Failure, at: Circumstances
) -> None:
    follows = after_failure(failure, replace(at, fallback_model=False))
    assert follows.step is not Step.FALLBACK_MODEL


@given(FAILURES, AT)
def test_a_reason_stands_beside_every_end_and_only_there(
    failure: Failure, at: Circumstances
) -> None:
    follows = after_failure(failure, at)
    assert (follows.why is not None) == (follows.step is Step.GIVE_UP)


def test_a_retry_after_is_waited_out_within_its_bound_before_another_model_is_taken() -> None:
    at = replace(ALONE, fallback_model=True)
    asked = Failure(FailureKind.COOL_DOWN, 2.0)
    assert after_failure(asked, at)[:2] == (Step.WAIT, 2.0)
    assert after_failure(asked, replace(at, retry_after_s_max=1.9)).step is Step.FALLBACK_MODEL
    assert after_failure(asked, replace(at, left_s=1.9)).step is Step.FALLBACK_MODEL
    assert after_failure(asked, replace(at, times_asked=2)).step is Step.FALLBACK_MODEL


def test_a_server_error_is_asked_once_more_before_another_model_is_taken() -> None:
    at = replace(ALONE, fallback_model=True)
    for kind in (FailureKind.SERVER_ERROR, FailureKind.RESET):
        assert after_failure(Failure(kind), at).step is Step.ONCE_MORE
        assert after_failure(Failure(kind), replace(at, times_asked=2)).step is (
            Step.FALLBACK_MODEL
        )
