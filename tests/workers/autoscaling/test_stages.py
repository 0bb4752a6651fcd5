"""Where a start is, and when it will be over."""

from hypothesis import given
from hypothesis import strategies as st

from workers.autoscaling.stages import LATE, eta_s, stage_of_start

SECONDS = st.floats(0.1, 3_600)


@given(has_place=st.booleans())
def test_stages_follow_what_is_seen(has_place: bool) -> None:
    seen = ((False, False), (True, False), (True, True))
    stages = [
        stage_of_start(has_process=process, is_loaded=loaded, has_place=has_place)
        for process, loaded in seen
    ]
    assert stages == ["spare" if has_place else "node", "load", "warm-up"]


def test_a_checkpoint_that_comes_is_a_stage_of_its_own_before_it_is_loaded() -> None:
    coming = {"has_process": True, "has_place": True, "is_fetching": True}
    assert stage_of_start(is_loaded=False, **coming) == "weights"
    assert stage_of_start(is_loaded=True, **coming) == "warm-up"


@given(start=SECONDS, age=SECONDS, left=SECONDS)
def test_what_is_left_of_a_fetch_comes_on_top(start: float, age: float, left: float) -> None:
    assert abs(eta_s(start, age, left) - eta_s(start, age) - left) <= 0.002


@given(start=SECONDS, age=SECONDS)
def test_eta_is_what_is_left_and_grows_only_where_a_start_is_late(start: float, age: float) -> None:
    if age <= start:
        assert abs(eta_s(start, age) - (start - age)) <= 0.001
    else:
        assert abs(eta_s(start, age) - LATE * age) <= 0.001
