"""The seed of the next call is known beforehand, however often it is looked at."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from gateway.decisions.seeds import SEED_BITS, Seeds
from gateway.fields import EXACT_MAX


@given(st.integers(), st.lists(st.booleans(), max_size=30))
def test_call_takes_the_seed_that_was_told_before_it(start: int, takes: list[bool]) -> None:
    seeds, alone = Seeds(Random(start)), Seeds(Random(start))
    for is_taken in takes:
        told = seeds.next
        if is_taken:
            assert told == seeds.take() == alone.take()
    assert seeds.next == alone.next, "looking changes nothing"


def test_every_seed_is_a_number_that_json_has_exactly() -> None:
    assert 2**SEED_BITS - 1 <= EXACT_MAX
