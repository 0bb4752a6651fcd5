"""Where a start is, when it will be over, and how many starts were where."""

from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from workers.autoscaling.stages import LATE, Stage, StageCount, counted, eta_s, stage_of_start

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


LOOKS = st.lists(
    st.dictionaries(st.sampled_from("abc"), st.sampled_from(Stage), max_size=3), max_size=12
)


@given(looks=LOOKS, steps=st.lists(st.integers(0, 5_000), min_size=12, max_size=12))
def test_every_start_counts_once_in_each_stage_that_it_comes_to_and_no_second_is_lost(
    looks: list[dict[str, Stage]], steps: list[int]
) -> None:
    counts: Mapping[Stage, StageCount] = {}
    before: Mapping[str, Stage] = {}
    came: Counter[Stage] = Counter()
    passed_ms: Counter[Stage] = Counter()
    for now, step_ms in zip(looks, steps, strict=False):
        came.update(stage for id, stage in now.items() if (id, stage) not in before.items())
        for stage in before.values():
            passed_ms[stage] += step_ms
        after = counted(counts, before, now, step_ms / 1000)
        assert all(
            after[s].starts >= counts[s].starts and after[s].s >= counts[s].s for s in counts
        )
        counts, before = after, now
    assert {stage: each.starts for stage, each in counts.items()} == dict(came)
    assert {s: round(each.s * 1000) for s, each in counts.items() if each.s} == +passed_ms


def test_start_that_goes_on_in_its_stage_counts_no_second_time() -> None:
    first = counted({}, {}, {"a": Stage.LOAD, "b": Stage.LOAD}, 1.0)
    again = counted(first, {"a": Stage.LOAD, "b": Stage.LOAD}, {"a": Stage.LOAD}, 2.0)
    assert again == {Stage.LOAD: StageCount(2, 4.0)}
