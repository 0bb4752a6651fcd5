"""Cuts of the ledger: no charge on two invoices, none on none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from billing.invoices.cuts import Cut, free

MONTH, OTHER = 100, 200
PLACES = st.integers(0, 60)


@given(
    spans=st.lists(st.tuples(PLACES, PLACES), max_size=6),
    moved=PLACES,
    others=st.lists(st.tuples(PLACES, PLACES), max_size=2),
)
def test_what_is_free_and_what_is_taken_are_every_place_once(
    spans: list[tuple[int, int]], moved: int, others: list[tuple[int, int]]
) -> None:
    taken = [Cut(MONTH, *sorted(span)) for span in spans]
    elsewhere = [Cut(OTHER, *sorted(span)) for span in others]
    found = list(free(MONTH, moved, [*taken, *elsewhere]))
    for place in range(1, 61):
        owners = [cut for cut in found if cut.after_us < place <= cut.upto_us]
        is_taken = any(cut.after_us < place <= cut.upto_us for cut in taken)
        newest = max([moved, *(cut.after_us for cut in taken)])
        assert len(owners) == (not is_taken and place <= newest)
    assert all(cut.service_start_us == MONTH and cut.after_us < cut.upto_us for cut in found)
