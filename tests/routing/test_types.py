"""What a pool says of itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.routing.fleets import external, pool

DAYS = st.none() | st.integers(0, 400)
TRAINS = st.none() | st.booleans()


@given(DAYS, TRAINS)
def test_only_a_server_that_is_known_to_do_neither_collects_no_data(
    days: int | None, trains: bool | None
) -> None:
    outside = external(retention_days=days, trains=trains)
    assert outside.collects_data == ((days, trains) != (0, False))
    assert not pool(retention_days=days, trains=trains).collects_data
