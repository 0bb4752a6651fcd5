"""Credit that runs low is told once for each fall below a threshold, on both databases."""

from __future__ import annotations

from typing import Any

import pytest

from billing.credits import alerts, watch_store
from billing.credits.grants import book_ends, give, void
from billing.credits.watch import Threshold, ThresholdUnit, Watch
from billing.db.engine import Store
from billing.types import UsageSource
from tests.billing.credits.test_grants import (
    ADMITTED_US,
    CLOCK_SKEW_MAX_US,
    LATER_US,
    NOW_US,
    book,
    call,
    caught_up,
    given,
    grant,
)

COST = 220 + 1120 + 1
"""What one call of `call` costs, in nano-USD."""


@pytest.fixture
def store(either_store: Store) -> Store:
    return either_store


def watched(
    store: Store, *, amounts: tuple[int, ...] = (), percents: tuple[int, ...] = ()
) -> Watch:
    wanted = [
        *(Threshold(ThresholdUnit.NANOUSD, amount) for amount in amounts),
        *(Threshold(ThresholdUnit.PERCENT, percent) for percent in percents),
    ]
    return alerts.watch(store, "org_1", frozenset(wanted), NOW_US)


def use(store: Store, *numbers: int, **changes: Any) -> None:
    """Calls booked one batch after the other."""
    for number in numbers:
        book(store, call(store, f"req_{number}", **changes))


def told(store: Store) -> list[tuple[int, int]]:
    """(limit, left) of every alert, in the order in which they were written."""
    with store.read() as conn:
        rows = watch_store.alerts(conn, org="org_1", before_us=None, limit=100)
    return [(row["limit_nanousd"], row["left_nanousd"]) for row in sorted(rows, key=_number)]


def _number(row: dict[str, Any]) -> int:
    number: int = row["id"]
    return number


def test_a_fall_below_an_amount_or_a_share_is_told_once(store: Store) -> None:
    given(store, grant(amount=10 * COST))
    watched(store, amounts=(5 * COST,), percents=(20,))
    use(store, *range(5))
    assert told(store) == [], "what is left is the threshold, and not below it"
    use(store, *range(5, 10))
    assert told(store) == [(5 * COST, 4 * COST), (2 * COST, COST)]


def test_one_batch_that_falls_below_several_tells_the_highest_first(store: Store) -> None:
    given(store, grant(amount=10 * COST))
    watched(store, amounts=(5 * COST, 9 * COST), percents=(70,))
    book(store, *(call(store, f"req_{n}") for n in range(8)))
    assert told(store) == [(limit * COST, 2 * COST) for limit in (9, 7, 5)]


def test_a_new_grant_that_lifts_credit_is_told_of_again(store: Store) -> None:
    given(store, grant("first", 4 * COST))
    watched(store, amounts=(2 * COST,), percents=(50,))
    use(store, 1, 2, 3)
    assert told(store) == [(2 * COST, COST)] * 2
    given(store, grant("second", 9 * COST))
    assert len(told(store)) == 2
    use(store, 4, 5, 6, 7, 8)
    assert told(store)[2:] == [], "half of the ten there were is five"
    use(store, 9)
    assert told(store)[2:] == [(5 * COST, 4 * COST)]
    use(store, 10, 11, 12)
    assert told(store)[3:] == [(2 * COST, COST)]


def test_a_grant_that_does_not_lift_it_is_not_told_of_again(store: Store) -> None:
    given(store, grant("first", 4 * COST))
    watched(store, amounts=(4 * COST,))
    use(store, 1, 2, 3)
    given(store, grant("second", COST))
    use(store, 4)
    assert told(store) == [(4 * COST, 3 * COST)]


def test_a_grant_that_was_to_begin_later_lifts_it_when_it_has_begun(store: Store) -> None:
    given(store, grant("first", 3 * COST), grant("later", 9 * COST, effective_us=LATER_US - 9))
    watched(store, amounts=(3 * COST,))
    book(store, call(store, "req_1"), now_us=LATER_US - 99)
    assert told(store) == [(3 * COST, 2 * COST)]
    book(store, call(store, "req_2"), now_us=LATER_US)
    assert told(store)[1:] == []
    assert alerts.watch_of(store, "org_1").granted_nanousd == 11 * COST


def test_credit_that_expires_is_told_of_when_that_is_booked(store: Store) -> None:
    given(store, grant("ends", 9 * COST, expires_us=ADMITTED_US), grant("stays", COST))
    watched(store, amounts=(5 * COST,))
    past_us = ADMITTED_US + 2 * CLOCK_SKEW_MAX_US
    caught_up(store, past_us)
    assert book_ends(store, past_us) == 1
    assert told(store) == [(5 * COST, COST)]
    assert book_ends(store, past_us) == 0


def test_a_voided_grant_counts_until_it_has_ended(store: Store) -> None:
    given(store, grant("wrong", 9 * COST), grant("stays", 3 * COST))
    watched(store, amounts=(5 * COST,))
    void(store, "wrong", voided_by="test", now_us=NOW_US)
    assert told(store) == []
    use(store, 1)
    assert told(store) == [(5 * COST, 2 * COST)]


def test_a_correction_that_gives_credit_back_arms_the_threshold_again(store: Store) -> None:
    given(store, grant(amount=4 * COST))
    watched(store, amounts=(3 * COST,))
    book(store, call(store, "req_1", output=156, source=UsageSource.ESTIMATED))
    assert len(told(store)) == 1
    book(store, call(store, "req_1"))
    assert alerts.watch_of(store, "org_1").below == frozenset()
    use(store, 2)
    assert [limit for limit, _ in told(store)] == [3 * COST] * 2


def test_what_is_low_when_it_is_asked_for_is_told_at_once_and_what_is_kept_is_not_told_again(
    store: Store,
) -> None:
    given(store, grant(amount=4 * COST))
    watched(store, amounts=(9 * COST,))
    assert told(store) == [(9 * COST, 4 * COST)]
    watched(store, amounts=(9 * COST, 2 * COST))
    use(store, 1)
    assert len(told(store)) == 1
    watched(store)
    use(store, 2, 3)
    assert len(told(store)) == 1
    assert alerts.watch_of(store, "org_1").thresholds == frozenset()


def test_nobody_else_is_told_and_nobody_without_credit_costs_a_row(store: Store) -> None:
    use(store, 1)
    watched(store, amounts=(COST,))
    with store.read() as conn:
        assert watch_store.of_orgs(conn, ["org_2"]) == {}
        assert watch_store.alerts(conn, org="org_2", before_us=None, limit=9) == []
    assert told(store) == [(COST, 0)], "without credit one is below all of it"


class Broken(Exception):
    """What a test breaks off with."""


def test_an_alert_is_written_with_the_burn_or_not_at_all(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(store, grant(amount=2 * COST))
    watched(store, amounts=(2 * COST,))

    def fail(*_: object) -> None:
        raise Broken

    with monkeypatch.context() as broken:
        broken.setattr(
            "billing.ledger.booking.count_budgets", fail
        )  # after the burn, before the end
        with pytest.raises(Broken):
            use(store, 1)
    assert told(store) == [] and alerts.watch_of(store, "org_1").left_nanousd == 2 * COST
    use(store, 1)
    use(store, 1)
    assert told(store) == [(2 * COST, COST)]


def test_giving_the_same_grant_again_tells_nothing(store: Store) -> None:
    given(store, grant(amount=COST))
    watched(store, amounts=(2 * COST,))
    give(store, grant(amount=COST), created_by="test", now_us=NOW_US)
    assert len(told(store)) == 1
