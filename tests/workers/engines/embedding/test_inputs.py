from hypothesis import given
from hypothesis import strategies as st

from workers.engines.embedding.inputs import InputQueue, WaitingInput

calls = st.dictionaries(
    st.sampled_from("abcdef"), st.lists(st.integers(1, 60), min_size=1, max_size=20), min_size=1
)


def filled(calls: dict[str, list[int]], batch_tokens_max: int = 64) -> InputQueue[str]:
    queue: InputQueue[str] = InputQueue(batch_tokens_max=batch_tokens_max)
    for call, lengths in calls.items():
        queue.add(call, [(7,) * length for length in lengths])
    return queue


def drained(queue: InputQueue[str]) -> list[list[WaitingInput[str]]]:
    batches = []
    while batch := queue.take():
        batches.append(batch)
    return batches


@given(calls, st.integers(1, 200))
def test_every_input_goes_once_and_a_batch_with_its_padding_stays_in_bounds(
    calls: dict[str, list[int]], batch_tokens_max: int
) -> None:
    queue = filled(calls, batch_tokens_max)
    batches = drained(queue)
    gone = sorted((each.call, each.index) for batch in batches for each in batch)
    assert gone == sorted((call, n) for call, lengths in calls.items() for n in range(len(lengths)))
    for batch in batches:
        padded = len(batch) * max(each.tokens for each in batch)
        assert len(batch) == 1 or padded <= batch_tokens_max
    assert not queue


@given(calls)
def test_no_call_waits_longer_than_for_a_turn_of_each_other(calls: dict[str, list[int]]) -> None:
    queue = filled(calls)
    first_turns = [queue.take() for _ in calls]
    assert {each.call for batch in first_turns for each in batch} == set(calls)


@given(calls, st.sampled_from("abcdef"), st.integers(0, 5))
def test_of_a_removed_call_nothing_goes_any_more(
    calls: dict[str, list[int]], gone: str, taken: int
) -> None:
    queue = filled(calls)
    for _ in range(taken):
        queue.take()
    queue.remove(gone)
    queue.remove(gone)  # twice is as good as once
    assert all(each.call != gone for batch in drained(queue) for each in batch)


def test_neighbours_in_length_go_together() -> None:
    queue = filled({"a": [3, 50, 4, 49, 3], "b": [48]}, batch_tokens_max=150)
    assert [[each.tokens for each in batch] for batch in drained(queue)] == [
        [48, 49, 50],
        [3, 3, 4],
    ]


def test_a_small_call_passes_a_large_one() -> None:
    queue = filled({"large": [60] * 100})
    queue.take()
    queue.add("small", [(7,) * 2])
    soon = [queue.take(), queue.take()]
    assert "small" in {each.call for batch in soon for each in batch}
