"""When a part that ended is started again."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.supervisor.restarts import Backoff, Life, has_worked, pause_s

BACKOFF = Backoff(first_s=0.5, longest_s=15.0, steady_after_s=2.0)
SECONDS = st.floats(0.0, 1e6)
LIVES = st.builds(Life, SECONDS, st.none() | SECONDS)


@given(st.lists(LIVES, min_size=1))
def test_starts_take_no_more_time_than_work_and_pauses(lives: list[Life]) -> None:
    """Whoever kills it, and however often."""
    in_vain, work_s, paused_s, restarts_at_once = 0, 0.0, 0.0, 0
    for life in lives:
        in_vain = 0 if has_worked(life, BACKOFF) else in_vain + 1
        pause = pause_s(in_vain, BACKOFF)
        if pause == 0:
            restarts_at_once += 1
            assert life.worked_s is not None
            assert life.worked_s >= life.starting_s
            work_s += life.worked_s
        paused_s += pause
    assert restarts_at_once * BACKOFF.steady_after_s <= work_s
    assert paused_s >= (len(lives) - restarts_at_once) * BACKOFF.first_s


@given(LIVES, st.integers(1, 10_000))
def test_part_that_worked_is_started_at_once_and_one_in_vain_later_each_time(
    life: Life, in_vain: int
) -> None:
    assert pause_s(0, BACKOFF) == 0.0
    assert pause_s(in_vain, BACKOFF) <= pause_s(in_vain + 1, BACKOFF) <= BACKOFF.longest_s
    if life.worked_s is None:
        assert not has_worked(life, BACKOFF)


def test_first_pauses_double() -> None:
    assert [pause_s(n, BACKOFF) for n in range(8)] == [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0]
