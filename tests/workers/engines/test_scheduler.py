from hypothesis import given
from hypothesis import strategies as st

from workers.engines.continuous.scheduler import (
    Limits,
    Occupancy,
    admissions,
    next_in_turn,
    prefill_chunks,
)

LIMITS = Limits(slots=8, staging_rows=4, prefill_tokens_max=128)
limits = st.builds(
    Limits,
    slots=st.integers(1, 32),
    staging_rows=st.integers(1, 8),
    prefill_tokens_max=st.integers(8, 512),
)


@given(limits, st.integers(0, 100), st.data())
def test_admitting_never_exceeds_rows_slots_or_the_queue(
    limits: Limits, waiting: int, data: st.DataObject
) -> None:
    staging = data.draw(st.integers(0, min(limits.staging_rows, limits.slots)))
    decoding = data.draw(st.integers(0, limits.slots - staging))
    admitted = admissions(Occupancy(waiting, staging, decoding), limits)
    assert 0 <= admitted <= waiting
    assert staging + admitted <= limits.staging_rows
    assert staging + admitted + decoding <= limits.slots


@given(limits, st.integers(1, 100))
def test_an_idle_engine_admits_someone(limits: Limits, waiting: int) -> None:
    assert admissions(Occupancy(waiting, staging=0, decoding=0), limits) >= 1


@given(
    st.lists(st.sampled_from("abcd"), min_size=1),
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9)),
)
def test_the_oldest_of_a_call_with_fewest_rows_comes_next(
    waiting: list[str], held: dict[str, int]
) -> None:
    place = next_in_turn(waiting, held)
    rows = [held.get(call, 0) for call in waiting]
    assert rows[place] == min(rows)
    assert min(rows) not in rows[:place]


@given(limits, st.lists(st.integers(1, 2000), max_size=8))
def test_a_step_prefills_within_its_bound_and_everyone_advances(
    limits: Limits, remaining: list[int]
) -> None:
    chunks = prefill_chunks(remaining, limits)
    assert len(chunks) == len(remaining)
    assert all(1 <= chunk <= left for chunk, left in zip(chunks, remaining, strict=True))
    assert len(chunks) * max(chunks, default=0) <= limits.prefill_tokens_max  # padding included


def test_a_short_newcomer_is_done_in_one_step_beside_a_long_prompt() -> None:
    assert prefill_chunks([2000, 30], LIMITS) == [64, 30]


def test_a_full_batch_admits_nobody() -> None:
    assert admissions(Occupancy(waiting=3, staging=1, decoding=7), LIMITS) == 0
