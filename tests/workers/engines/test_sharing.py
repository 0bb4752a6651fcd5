"""Laws of sharing: no second is shared out twice, and none is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from workers.engines.sharing import between_us, shares_us

computed = st.lists(st.integers(1, 4096), min_size=1, max_size=32)
elapsed = st.integers(0, 10**8)


@given(elapsed_us=elapsed, tokens=computed)
def test_shares_of_a_pass_are_its_time(elapsed_us: int, tokens: list[int]) -> None:
    shares = shares_us(elapsed_us, tokens)
    assert sum(shares) == elapsed_us
    assert min(shares) >= 0


@given(elapsed_us=elapsed, tokens=computed)
def test_each_share_is_its_tokens_part_to_the_microsecond(
    elapsed_us: int, tokens: list[int]
) -> None:
    for share_us, count in zip(shares_us(elapsed_us, tokens), tokens, strict=True):
        assert abs(share_us * sum(tokens) - elapsed_us * count) < sum(tokens)


@given(passes=st.lists(st.tuples(elapsed, computed), max_size=20))
def test_calls_of_a_replica_never_share_more_than_it_worked(
    passes: list[tuple[int, list[int]]],
) -> None:
    """Each pass serves sequences 0 to n-1, as a batch does."""
    busy_us: dict[int, int] = {}
    for elapsed_us, tokens in passes:
        for sequence, share_us in enumerate(shares_us(elapsed_us, tokens)):
            busy_us[sequence] = busy_us.get(sequence, 0) + share_us
    assert sum(busy_us.values()) == sum(elapsed_us for elapsed_us, _ in passes)


def test_a_clock_that_steps_back_gives_no_time() -> None:
    assert between_us(2.0, 1.0) == 0
    assert between_us(1.0, 1.25) == 250_000
