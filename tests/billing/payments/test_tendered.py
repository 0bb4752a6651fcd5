"""Money in the currency that an invoice shows: no cent is lost, whatever the rate and the parts."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from billing.currencies.conversion import Conversion
from billing.currencies.exchange_rate import NANO_MAX, NANO_MIN
from billing.payments.tendered import TenderedDue

rates = st.builds(
    Conversion,
    st.just("EUR"),
    st.integers(NANO_MIN, NANO_MAX) | st.integers(10**8, 10**10),
    st.just(date(2026, 11, 27)),
    st.just("ECB"),
)
dues = st.builds(TenderedDue, rates, st.integers(1, 1_000) | st.integers(1, 10**10))


def paid(due: TenderedDue, cents: int) -> tuple[TenderedDue, int]:
    """What is due after a part, and what it is in USD."""
    booked = due.usd_cents(cents)
    came = {"booked_cents": due.booked_cents + booked, "came_cents": due.came_cents + cents}
    return replace(due, **came), booked


@given(dues, st.data())
def test_any_parts_of_what_is_shown_sum_to_what_is_due(
    due: TenderedDue, data: st.DataObject
) -> None:
    whole = due.left_cents
    cuts = sorted(data.draw(st.sets(st.integers(0, whole), max_size=8)) | {0, whole})
    for part in (high - low for low, high in pairwise(cuts)):
        assert due.left_cents > 0
        due, booked = paid(due, part)
        assert booked >= 0
        at_the_rate = due.conversion.usd_cents(due.came_cents)
        assert due.left_cents == 0 or abs(due.booked_cents - at_the_rate) <= 1
    assert due.left_cents == 0
    assert due.booked_cents == (due.due_cents if whole else 0)


@given(dues, st.integers(0, 10**9), st.integers(0, 10**9))
def test_what_is_above_is_worth_the_rate_and_what_is_below_leaves_something_due(
    due: TenderedDue, above: int, below: int
) -> None:
    whole = due.left_cents
    more = due.conversion.usd_cents(above)
    assert due.usd_cents(whole + above) == (due.due_cents if whole else 0) + more
    if below < whole:
        after, booked = paid(due, below)
        assert booked < due.due_cents and after.left_cents == whole - below


@given(dues)
def test_what_dollars_have_paid_is_not_asked_for_again(due: TenderedDue) -> None:
    settled = replace(due, booked_cents=due.due_cents)
    assert settled.left_cents == 0
    assert settled.usd_cents(100) == due.conversion.usd_cents(100)
